package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func newClient(t *testing.T, rdb redis.UniversalClient) *holdfast.Client {
	return kindtest.NewClient(t, rdb, &holdfast.Options{Lease: 6 * time.Second}) // who lost a lock learns of it soon
}

// serve serves the page below a path, and is quick.
func serve(t *testing.T, rdb redis.UniversalClient, opts holdfastweb.Options) (url string) {
	opts.Share, opts.Every = 0.5, 100*time.Millisecond
	page, err := holdfastweb.New(rdb, &opts)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/admin/locks/", page)
	srv := httptest.NewServer(mux)
	t.Cleanup(func() { page.Close(); srv.Close() })
	return srv.URL + "/admin/locks/"
}

func anybody(*http.Request, string) (string, bool) { return "anybody", true }

// TestComplaintsAreHeard is the control of all others here: what a policy refuses, and a script that fails, is noticed.
func TestComplaintsAreHeard(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'")
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path != "/" {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write([]byte("no_such_function()"))
			return
		}
		_, _ = w.Write([]byte("<link rel=icon href='data:,'><p style='color: red'>a</p><script src='/fails.js'></script>"))
	}))
	t.Cleanup(srv.Close)
	b := newTab(t)
	b.open(srv.URL)
	require.True(t, redistest.Within(patience, func() bool { return len(b.complaints()) >= 2 }))
	text := strings.Join(b.complaints(), "\n")
	require.Contains(t, text, "Content Security Policy")
	require.Contains(t, text, "no_such_function")
	b.expect("") // all of them
}

// TestLive: what is taken appears, what waits is counted, and what is released goes, without a reload.
func TestLive(t *testing.T) {
	srv := redistest.Start(t)
	client, other := newClient(t, srv.Client(t)), newClient(t, srv.Client(t))
	h := kindtest.Lock(t, rlock.New(client, "orders:42"))
	b := newTab(t)
	b.open(serve(t, srv.Client(t), holdfastweb.Options{}))
	b.reads("#rows", "orders:42")
	b.reads("#live", "live")
	require.True(t, b.is("window.stays = true"))

	late := kindtest.Lock(t, rlock.New(client, "orders:43"))
	b.reads("#rows", "orders:43")
	b.reads("#head", "2 locks")
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() { defer close(gone); _, _ = rlock.New(other, "orders:43").Lock(ctx) }()
	b.until("[...document.querySelectorAll('#rows tr')].some(tr => tr.innerText.includes('orders:43') && tr.innerText.includes('~1'))")
	cancel()
	<-gone
	require.NoError(t, late.Unlock(t.Context()))
	b.until("!document.querySelector('#rows').innerText.includes('orders:43')")
	require.NoError(t, h.Unlock(t.Context()))
	b.reads("#head", "No locks held or waited for.")
	b.until("document.querySelectorAll('#rows tr').length === 0")
	require.True(t, b.is("window.stays"), "the page was not loaded again")
}

// TestTimesRun: a time goes on in the page alone, by the clock of the one who asked Redis.
func TestTimesRun(t *testing.T) {
	srv := redistest.Start(t)
	h := kindtest.Lock(t, rlock.New(newClient(t, srv.Client(t)), "orders:42"))
	defer h.Unlock(t.Context())
	b := newTab(t)
	b.open(serve(t, srv.Client(t), holdfastweb.Options{}))
	b.reads("#live", "live")
	b.until("window.was = Number.parseInt(document.querySelector('time[data-since]').innerText) + 1")
	b.until("Number.parseInt(document.querySelector('time[data-since]').innerText) > window.was")
}

// TestFilterAndDetail: the filter, the order, a lock's page and the way back.
func TestFilterAndDetail(t *testing.T) {
	srv := redistest.Start(t)
	client := newClient(t, srv.Client(t))
	for _, name := range []string{"orders:1", "orders:2", "invoices:1"} {
		kindtest.Lock(t, rlock.New(client, name))
	}
	b := newTab(t)
	b.open(serve(t, srv.Client(t), holdfastweb.Options{}))
	b.reads("#rows", "invoices:1")
	require.NoError(t, chromedp.Do(b.ctx, chromedp.SendKeys(chromedp.CSS("input[name=match]"), "orders:*\r")))
	b.reads("#head", "2 locks of 3")
	b.until("!document.querySelector('#rows').innerText.includes('invoices')")
	b.click("thead th.name a")
	b.until("document.querySelector('thead th.name').getAttribute('aria-sort') === 'ascending'")
	require.True(t, b.is("document.querySelector('#rows tr').innerText.includes('orders:1')"))
	b.click("thead th.name a")
	b.until("document.querySelector('#rows tr').innerText.includes('orders:2')")
	require.True(t, b.is("(document.querySelector('select[name=kind]').value = 'semaphore', true)"))
	require.True(t, b.is("document.querySelector('select[name=kind]').dispatchEvent(new Event('change'))"))
	b.reads("#head", "No locks match.")
	b.click("form.filter a.button")
	b.reads("#rows", "invoices:1")

	b.until("[...document.querySelectorAll('#rows a')].find(a => a.innerText === 'invoices:1').click() === undefined")
	b.reads("h1", "invoices:1")
	b.reads("#live", "live")
	b.reads("#body", "Held by")
	require.NotContains(t, b.text("#body"), "End…", "it is read-only")
	require.NoError(t, client.Close(t.Context()))
	b.reads("#body", "Somebody had within the last hour")
	b.click("header a")
	b.reads("#head", "No locks held or waited for.")
}

// TestForceInTheBrowser: from the list to the end of a hold, with a confirmation; a grant that came meanwhile keeps the lock.
func TestForceInTheBrowser(t *testing.T) {
	srv := redistest.Start(t)
	client := newClient(t, srv.Client(t))
	m := rlock.New(client, "orders:42", holdfast.NoHandoff())
	h := kindtest.Lock(t, m)
	b := newTab(t)
	b.open(serve(t, srv.Client(t), holdfastweb.Options{Permit: anybody}))
	b.click("#rows a")
	b.click("#body a.danger")
	b.reads("h1", "End this hold?")
	b.reads("main", h.Owner())
	b.click("form.ask a")
	b.reads("h1", "orders:42")
	require.NoError(t, h.Context().Err())
	b.click("#body a.danger")
	b.reads("h1", "End this hold?")
	b.click("button.danger")
	b.reads("h1", "The hold was ended")
	<-h.Context().Done()
	b.click("main a.button")
	b.reads("#body", "Nobody has it")

	h = kindtest.Lock(t, m)
	b.click("#body a.danger")
	b.reads("h1", "End this hold?")
	require.NoError(t, h.Unlock(t.Context()))
	h = kindtest.Lock(t, m)
	b.expect("409") // the browser says that the answer was one
	b.click("button.danger")
	b.reads("h1", "Nothing was changed")
	require.NoError(t, h.Context().Err())
	require.NoError(t, h.Unlock(t.Context()))
}

// TestWithoutJavaScript: everything can be read, filtered and ended.
func TestWithoutJavaScript(t *testing.T) {
	srv := redistest.Start(t)
	h := kindtest.Lock(t, rlock.New(newClient(t, srv.Client(t)), "orders:42"))
	b := newTab(t)
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(t, err)
	b.open(serve(t, srv.Client(t), holdfastweb.Options{Permit: anybody}))
	b.reads("header", "as of now; look again")
	b.reads("#rows", "orders:42")
	require.Empty(t, b.text("#live"), "nothing claims to be live")
	require.Regexp(t, `^\d+s$`, b.text("#rows time[data-since]"))
	require.NoError(t, chromedp.Do(b.ctx, chromedp.SendKeys(chromedp.CSS("input[name=match]"), "nothing"), chromedp.Click(chromedp.CSS("form.filter button"))))
	b.reads("#head", "No locks match.")
	b.click("form.filter a.button")
	b.click("#rows a")
	b.reads("h1", "orders:42")
	b.click("#body a.danger")
	b.click("button.danger")
	b.reads("h1", "The hold was ended")
	<-h.Context().Done()
}

// TestNamesStayText: no name, owner or label becomes a part of the page, live or not.
func TestNamesStayText(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	client := newClient(t, srv.Client(t))
	long := strings.Repeat("long-", 2000)
	evil := []string{
		`<img src=x onerror="window.bad=1">`, `"><script>window.bad=1</script>`, `'onfocus='window.bad=1' autofocus='`, "javascript:window.bad=1",
		`</time></td></tr></table><h1 id="bad">`, "a\x00b\x1b[31m\u202Ec", "\xff\xfe", long, "{a}{{.Name}}", "a&lt;b",
	}
	for _, name := range evil {
		if name != long {
			require.NoError(t, kindtest.Err(rlock.New(client, name).Lock(t.Context())), name)
		}
	}
	for _, name := range []string{"evil owner", long} { // an owner that nobody of ours would be called, and a name that we refuse
		require.NoError(t, rdb.HSet(t.Context(), name, `11111111-2222-4333-8444-555555555555:1`, 1).Err())
		require.NoError(t, rdb.Set(t.Context(), "redisson_lock_token:{"+name+"}", "5000", time.Hour).Err())
	}
	require.NoError(t, rdb.Set(t.Context(), "holdfast_client:{11111111-2222-4333-8444-555555555555}", `<b id="bad">label</b>`, time.Hour).Err())
	b := newTab(t)
	url := serve(t, rdb, holdfastweb.Options{Permit: anybody})
	b.open(url)
	b.reads("#head", "11 locks")
	b.reads("#live", "live")
	b.until("document.querySelectorAll('#rows tr').length === 11")
	for _, text := range []string{evil[0], evil[1], evil[4], `"\xff\xfe"`, `"a\x00b\x1b[31m\xe2\x80\xaec"`, evil[9], `<b id="bad">label</b>`} {
		b.reads("#rows", text)
	}
	links := 0
	for n := range 11 { // every lock has a page, or no link to one
		b.open(url + "?sort=name")
		link := fmt.Sprintf("document.querySelectorAll('#rows tr')[%d].querySelector('th a')", n)
		b.until(link + " !== undefined")
		if b.is(link + " === null") {
			continue
		}
		links++
		name, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](link+".textContent"))
		require.NoError(t, err)
		b.until(link + ".click() === undefined")
		b.until("document.querySelector('#body') && document.querySelector('h1').textContent === " + quoted(name))
		b.reads("#body", "Held by")
	}
	require.Equal(t, 10, links, "only of what is too long there is none")
	require.True(t, b.is("window.bad === undefined && !document.getElementById('bad')"))
}

func quoted(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text
	}
	return string(data)
}

// TestServerGoesAndComes: the page says so, and recovers by itself.
func TestServerGoesAndComes(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t, func(o *redis.Options) { o.MaxRetries, o.ReadTimeout = -1, time.Second })
	set := func() {
		require.NoError(t, rdb.HSet(t.Context(), "orders:42", "11111111-2222-4333-8444-555555555555:h1", 1).Err())
		require.NoError(t, rdb.Set(t.Context(), "redisson_lock_token:{orders:42}", "5000", time.Hour).Err())
	}
	set()
	b := newTab(t)
	b.open(serve(t, rdb, holdfastweb.Options{}))
	b.reads("#live", "live")
	srv.Kill()
	b.reads("#head", "No answer from Redis since")
	b.reads("#head", "What you see is from")
	b.reads("#rows", "orders:42")
	srv.Restart()
	b.reads("#head", "No locks held or waited for.")
	require.NotContains(t, b.text("#head"), "No answer")
	set()
	b.reads("#rows", "orders:42")
}

// TestNotLiveBehindABuffer: behind a buffer the page is not called live, though the stream is open, until words come through.
func TestNotLiveBehindABuffer(t *testing.T) {
	srv := redistest.Start(t)
	page, err := holdfastweb.New(srv.Client(t), &holdfastweb.Options{Share: 0.5, Every: 100 * time.Millisecond})
	require.NoError(t, err)
	var keeps atomic.Bool
	keeps.Store(true)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/events") || !keeps.Load() {
			page.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(func() { page.Close(); web.CloseClientConnections(); web.Close() })
	b := newTab(t)
	b.open(web.URL + "/")
	b.until("window.open_ = new EventSource('events')")
	b.until("window.open_.readyState === EventSource.OPEN")
	require.NotEqual(t, "live", b.text("#live"), "the page's own stream was open before, and nothing has come")
	b.until("(window.now_ = Date.now, Date.now = () => window.now_.call(Date) + 60000, true)") // a minute later
	b.reads("#live", "not live; trying again")
	keeps.Store(false)
	b.until("(Date.now = () => window.now_.call(Date) + 120000, true)")
	b.until("document.querySelector('#live').innerText === 'live'")
}
