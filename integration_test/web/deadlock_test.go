package web_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// caller has one lock, and waits for another one until the test ends or the wait is ended.
type caller struct {
	*holdfast.Client
	*holdfast.Hold
}

func newCaller(t *testing.T, srv *redistest.Server, label, has string) caller {
	c := kindtest.NewClient(t, srv.Client(t), &holdfast.Options{Lease: 6 * time.Second, Label: label, LongWait: 200 * time.Millisecond})
	return caller{c, kindtest.Lock(t, rlock.New(c, has))}
}

func (c caller) waitsFor(t *testing.T, name string) (stop func()) {
	ctx, cancel := context.WithCancel(c.Hold.Context())
	wait := kindtest.Begin(ctx, t, rlock.New(c.Client, name).Lock)
	stop = func() { cancel(); _, _ = wait.Result() }
	t.Cleanup(stop)
	return stop
}

// TestDeadlockInTheBrowser: two callers that wait for each other appear above the list, with links to their locks, and go when a wait
// ends, without a reload. The control comes first: a wait without a circle, which was looked for twice, says nothing.
func TestDeadlockInTheBrowser(t *testing.T) {
	srv := redistest.Start(t)
	one, two := newCaller(t, srv, "orders-service", "x"), newCaller(t, srv, "stock-service", "y")
	var searches atomic.Int64
	rdb := srv.Client(t)
	rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		err := send()
		for _, cmd := range cmds {
			if get, ok := cmd.(*redis.StringCmd); ok && len(get.Args()) == 2 && get.Args()[1] == keys.Waits(one.ID()) && get.Val() != "" {
				searches.Add(1)
			}
		}
		return err
	}))
	b := newTab(t)
	b.open(serve(t, rdb, holdfastweb.Options{}))
	b.reads("#live", "live")
	require.True(t, b.is("window.stays = true"))
	one.waitsFor(t, "y")
	require.True(t, redistest.Within(patience, func() bool { return searches.Load() >= 2 }), "what the wait says was not read")
	b.reads("#rows", "~1")
	require.NotContains(t, b.text("body"), "eadlock")

	stop := two.waitsFor(t, "x")
	b.reads("#head", "Deadlock: 2 callers wait for each other")
	text := b.text("#head")
	require.Regexp(t, `orders-service \S+ has x and has waited \d+s for y, which stock-service has\.`, text)
	require.Regexp(t, `stock-service \S+ has y and has waited \d+s for x, which orders-service has\.`, text)
	stop()
	b.until("!document.querySelector('#head').innerText.includes('eadlock')")
	require.True(t, b.is("window.stays"), "the page was not loaded again")

	two.waitsFor(t, "x")
	b.until("[...document.querySelectorAll('#head section a')].find(a => a.innerText === 'y').click() === undefined")
	b.reads("h1", "y")
	b.reads("#body", "stock-service")
}
