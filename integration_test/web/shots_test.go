package web_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

var shots = flag.String("shots", "", "a directory for the screenshots of the documents, made anew")

// scene makes locks of every kind, some of which have been held for a while.
func scene(t *testing.T, srv *redistest.Server) {
	rdb, ctx := srv.Client(t), t.Context()
	var clients []*holdfast.Client
	for _, label := range []string{"web-1/orders[812]", "web-2/reports[655]", ""} {
		c := newClient(t, srv.Client(t))
		if clients = append(clients, c); label != "" {
			require.NoError(t, rdb.Set(ctx, keys.Label(c.ID()), label, time.Hour).Err())
		}
	}
	api, worker, other := clients[0], clients[1], clients[2]
	take := func(l holdfast.Locker) { _, err := l.Lock(ctx); require.NoError(t, err) }
	wait := func(l holdfast.Locker) {
		ctx, cancel := context.WithCancel(context.Background())
		gone := make(chan struct{})
		t.Cleanup(func() { cancel(); <-gone })
		go func() { defer close(gone); _, _ = l.Lock(ctx) }()
	}
	for n := range 6 {
		take(rlock.New(clients[n%3], fmt.Sprintf("orders:%d", 4211+n*17)))
	}
	take(rlock.New(worker, "reports:nightly"))
	wait(rlock.New(api, "reports:nightly"))
	take(fairlock.New(api, "tickets:berlin"))
	for range 3 {
		wait(fairlock.New(worker, "tickets:berlin"))
	}
	wait(fairlock.New(other, "tickets:berlin"))
	take(rwlock.New(api, "ledger").RLocker())
	take(rwlock.New(worker, "ledger").RLocker())
	wait(rwlock.New(other, "ledger"))
	require.NoError(t, kindtest.Err(semaphore.New(other, "calls:partner", 8).Acquire(ctx, 3)))
	require.NoError(t, kindtest.Err(election.New(worker, "scheduler").Campaign(ctx, "web-2.eu-1")))
	require.NoError(t, kindtest.Err(latch.New(api, "release:go").Set(ctx, 4)))
	require.NoError(t, kindtest.Err(latch.New(api, "release:go").CountDown(ctx)))
	require.NoError(t, rdb.HSet(ctx, "invoices:7", "0a6e1d3c-2222-4333-8444-555555555555:h9", 1).Err())
	for name, age := range map[string]time.Duration{
		"reports:nightly": 17 * time.Minute, "tickets:berlin": 4 * time.Second, "scheduler": 76 * time.Hour, "invoices:7": 31 * time.Hour, "orders:4211": 41 * time.Second,
	} {
		require.NoError(t, aged(ctx, rdb, name, age))
	}
}

// circle makes two clients wait for each other.
func circle(t *testing.T, srv *redistest.Server) {
	orders, stock := newCaller(t, srv, "web-1/orders[812]", "orders:42"), newCaller(t, srv, "web-2/stock[655]", "stock:7")
	orders.waitsFor(t, "stock:7")
	stock.waitsFor(t, "orders:42")
}

// aged makes a lock look as if it had been taken so long ago.
func aged(ctx context.Context, rdb *redis.Client, name string, age time.Duration) error {
	return rdb.Set(ctx, keys.For(name).Token, time.Now().Add(-age).UnixMicro(), time.Hour).Err()
}

// TestShots: at every width the page fits, whether light or dark. With -args -shots DIR the pictures of the documents are made.
func TestShots(t *testing.T) {
	srv := redistest.Start(t)
	scene(t, srv)
	dir := *shots
	if dir == "" {
		dir = t.TempDir()
	}
	url := serve(t, srv.Client(t), holdfastweb.Options{Permit: anybody})
	stuck := redistest.Start(t)
	circle(t, stuck)
	for name, shot := range map[string]struct {
		page          string
		width, height int64
		scheme        string
		shows         string
	}{
		"list-light":       {url, 1200, 640, "light", "invoices:7"},
		"list-dark":        {url, 1200, 640, "dark", "invoices:7"},
		"lock-light":       {url + "lock?name=tickets%3Aberlin", 1200, 560, "light", "Waiting"},
		"deadlock-light":   {serve(t, stuck.Client(t), holdfastweb.Options{}), 1200, 400, "light", "Deadlock"},
		"list-phone-light": {url, 390, 800, "light", "invoices:7"},
		"lock-phone-dark":  {url + "lock?name=ledger", 390, 800, "dark", "Waiting"},
	} {
		b := newTab(t)
		_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: shot.scheme}},
		})
		require.NoError(t, err)
		require.NoError(t, chromedp.Do(b.ctx, chromedp.EmulateViewport(shot.width, shot.height)))
		b.open(shot.page)
		b.reads("#live", "live")
		b.reads("main", shot.shows)
		b.until("![...document.querySelectorAll('#rows tr')].some(tr => tr.querySelector('.token').innerText !== '–' && tr.querySelector('[data-label^=grants]').innerText === '–')")
		require.True(t, b.is("document.documentElement.scrollWidth <= window.innerWidth"), "%s does not fit", name)
		require.True(t, b.is(`[...document.querySelectorAll("select")].every(s => {
			const is = s.offsetWidth;
			s.style.width = "max-content";
			const needs = s.offsetWidth;
			s.style.width = "";
			return is >= needs;
		})`), "%s cuts what is chosen", name)
		require.Equal(t, shot.scheme == "dark", b.is(`/^rgb\(2\d,/.test(getComputedStyle(document.body).backgroundColor)`))
		png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
	}
}
