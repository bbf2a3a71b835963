package holdfastweb_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// update is an event of a live page.
type update struct {
	Rows  map[string]string
	Order []string
	Empty bool
	Head  string
	Body  string
}

// viewer is somebody who watches.
type viewer struct {
	*testing.T
	status int
	got    chan update // closed when the stream has ended
	leave  func()
}

func served(t *testing.T, page *holdfastweb.Handler) *httptest.Server {
	return servedWithin(t, page, time.Second)
}

// servedWithin has somebody's server serve a page, which bounds the time of an answer; a stream must outlive that.
func servedWithin(t *testing.T, page *holdfastweb.Handler, writeTimeout time.Duration) *httptest.Server {
	srv := httptest.NewUnstartedServer(page)
	srv.Config.WriteTimeout = writeTimeout
	srv.Start()
	t.Cleanup(func() { page.Close(); srv.Close() })
	return srv
}

// watch opens a stream, which ends with the test at the latest.
func watch(t *testing.T, url string) *viewer {
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	transport := &http.Transport{}
	res, err := (&http.Client{Transport: transport}).Do(r)
	require.NoError(t, err)
	v := &viewer{t, res.StatusCode, make(chan update, 1000), nil}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(v.got)
		defer res.Body.Close()
		in := bufio.NewScanner(res.Body)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
				var u update
				if json.Unmarshal([]byte(data), &u) == nil {
					v.got <- u
				}
			}
		}
	}()
	v.leave = func() { cancel(); <-done; transport.CloseIdleConnections() }
	t.Cleanup(v.leave)
	return v
}

// hears waits for an update that is as wanted.
func (v *viewer) hears(what string, wanted func(u update) bool) {
	v.Helper()
	limit := time.After(patience)
	for {
		select {
		case u, ok := <-v.got:
			require.True(v, ok, "the stream has ended, and not: %s", what)
			if wanted(u) {
				return
			}
		case <-limit:
			v.Fatalf("not heard: %s", what)
		}
	}
}

func (u update) has(text string) bool {
	rows := slices.Collect(maps.Values(u.Rows))
	return slices.ContainsFunc(rows, func(row string) bool { return strings.Contains(row, text) })
}

// TestStreams: a stream tells only what is new, all streams share one poller, and with no stream Redis is not asked.
func TestStreams(t *testing.T) {
	srv := redistest.Start(t)
	client := kindtest.NewClient(t, srv.Client(t), nil)
	h := kindtest.Lock(t, rlock.New(client, "a"))
	page := newPage(t, srv.Client(t), quick(holdfastweb.Options{}))
	url := served(t, page).URL
	var viewers []*viewer
	for range 20 {
		viewers = append(viewers, watch(t, url+"/events"))
	}
	for _, v := range viewers {
		v.hears("the first list", func(u update) bool { return u.has(">a</a>") && len(u.Order) == 1 && strings.Contains(u.Head, "1 lock") })
	}
	one := watch(t, url+"/events?name=a")
	one.hears("the lock", func(u update) bool { return strings.Contains(u.Body, h.Owner()) })
	for _, v := range viewers {
		v.hears("that it is not granted again", func(u update) bool { return u.has(`>0</td><td role="cell" class="token"`) })
	}
	late := kindtest.Lock(t, rlock.New(client, "b"))
	for _, v := range viewers {
		v.hears("what was taken", func(u update) bool { return u.has(">b</a>") && !u.has(">a</a>") && len(u.Order) == 2 })
	}
	require.NoError(t, late.Unlock(t.Context()))
	for _, v := range viewers {
		v.hears("what was released", func(u update) bool { return len(u.Rows) == 0 && len(u.Order) == 1 })
	}
	require.NoError(t, h.Unlock(t.Context()))
	one.hears("that it is free", func(u update) bool { return strings.Contains(u.Body, "Nobody has it") })

	// One SCAN each time, however many watch: a list is taken at most every 100 ms, and circles of waits are searched each second.
	srv.ResetStats(t)
	from := time.Now()
	eventually(t, "lists are taken", func() bool { return srv.CommandCalls(t)["scan"] >= 5 })
	require.LessOrEqual(t, float64(srv.CommandCalls(t)["scan"]), time.Since(from).Seconds()*11+4)

	for _, v := range append(viewers, one) {
		v.leave()
	}
	eventually(t, "nobody asks any more", func() bool {
		srv.ResetStats(t)
		<-time.After(300 * time.Millisecond) // three times as long as between two lists
		return srv.CommandCalls(t)["scan"] == 0
	})
}

// TestViewersAreBounded: one too many is told so, and the place of one who goes is for another.
func TestViewersAreBounded(t *testing.T) {
	srv := redistest.Shared(t)
	page := newPage(t, srv.Client(t), quick(holdfastweb.Options{MaxViewers: 2}))
	url := served(t, page).URL
	one, two := watch(t, url+"/events"), watch(t, url+"/events?name=x")
	require.Equal(t, []int{200, 200}, []int{one.status, two.status})
	require.Equal(t, http.StatusServiceUnavailable, watch(t, url+"/events").status)
	require.Equal(t, http.StatusOK, get(t, page, "/").StatusCode, "the page itself is there")
	one.leave()
	eventually(t, "there is a place again", func() bool { return watch(t, url+"/events").status == http.StatusOK })
}

// TestSlowViewer: one who reads nothing holds up nobody, and Close ends all streams and all goroutines, as TestMain checks.
func TestSlowViewer(t *testing.T) {
	srv := redistest.Start(t)
	client := kindtest.NewClient(t, srv.Client(t), nil)
	for n := range 60 {
		kindtest.Lock(t, rlock.New(client, fmt.Sprintf("%d-%s", n, strings.Repeat("x", 60))))
	}
	page := newPage(t, srv.Client(t), quick(holdfastweb.Options{}))
	web := served(t, page)
	for range 10 {
		conn, err := net.Dial("tcp", web.Listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(1))
		require.NoError(t, kindtest.Err(fmt.Fprintf(conn, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n")))
	}
	v := watch(t, web.URL+"/events")
	v.hears("the first list", func(u update) bool { return len(u.Order) > 0 })
	kindtest.Lock(t, rlock.New(client, "late"))
	v.hears("what is new", func(u update) bool { return strings.Contains(u.Head, "61") })
	page.Close()
	eventually(t, "the stream ends", func() bool {
		select {
		case _, ok := <-v.got:
			return !ok
		default:
			return false
		}
	})
	require.Equal(t, http.StatusServiceUnavailable, watch(t, web.URL+"/events").status)
}

// TestOutage: the stream goes on, says what is the matter, and recovers.
func TestOutage(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t, func(o *redis.Options) { o.MaxRetries, o.ReadTimeout, o.DialTimeout = -1, time.Second, time.Second })
	held(t, rdb, "a")
	page := newPage(t, rdb, quick(holdfastweb.Options{}))
	url := served(t, page).URL
	v, one := watch(t, url+"/events"), watch(t, url+"/events?name=a")
	v.hears("the list", func(u update) bool { return u.has(">a</a>") })
	one.hears("the lock", func(u update) bool { return strings.Contains(u.Body, "Held by") })
	srv.Pause()
	v.hears("that it is silent", func(u update) bool { return strings.Contains(u.Head, "No answer from Redis since") })
	one.hears("that it is silent", func(u update) bool {
		return strings.Contains(u.Body, "No answer from Redis since") && strings.Contains(u.Body, "Held by") &&
			strings.Contains(u.Body, "What you see is from")
	})
	srv.Resume()
	well := func(u update) bool { return u.Head != "" && !strings.Contains(u.Head, "No answer") }
	v.hears("that it is back", well)
	srv.Kill()
	v.hears("that it is gone", func(u update) bool { return strings.Contains(u.Head, "No answer from Redis since") })
	a := get(t, page, "/")
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Contains(t, a.body, "What you see is from")
	require.Equal(t, []string{"a"}, rowsOf(a))
	since := regexp.MustCompile(`No answer from Redis since \S+`)
	lock := get(t, page, "/lock?name=a")
	require.Equal(t, http.StatusServiceUnavailable, lock.StatusCode)
	require.Equal(t, since.FindString(a.body), since.FindString(lock.body))
	require.NotEmpty(t, since.FindString(lock.body))
	srv.Restart()
	v.hears("that it is back", well)
}

// zipped is somebody's middleware that compresses: what is flushed is passed on.
type zipped struct {
	http.ResponseWriter
	out *gzip.Writer
}

func (z zipped) Write(p []byte) (int, error) { return z.out.Write(p) }

func (z zipped) FlushError() error {
	if err := z.out.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(z.ResponseWriter).Flush()
}

func zip(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := zipped{w, gzip.NewWriter(w)}
		defer z.out.Close()
		next.ServeHTTP(z, r)
	})
}

// behind is a reverse proxy that shows a service below a path of its own, and calls it by another name.
func behind(t *testing.T, service *httptest.Server, prefix string) *httptest.Server {
	to, err := url.Parse(service.URL)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Transport: service.Client().Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to) // and the Host is that of the service
			r.Out.URL.Path = "/" + strings.TrimPrefix(r.In.URL.Path, prefix)
		},
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(func() { front.CloseClientConnections(); front.Close() })
	return front
}

// TestBehindProxies: below an unknown path, compressed or not, over HTTP/1.1 or 2, the page is live, and its links end a hold.
func TestBehindProxies(t *testing.T) {
	const prefix = "/ops/redis-1/"
	for what, c := range map[string]struct {
		wrap func(http.Handler) http.Handler
		h2   bool
	}{
		"plain": {func(h http.Handler) http.Handler { return h }, false}, "gzip": {zip, false}, "HTTP/2": {func(h http.Handler) http.Handler { return h }, true},
	} {
		t.Run(what, func(t *testing.T) {
			srv := redistest.Shared(t)
			client := kindtest.NewClient(t, srv.Client(t), nil)
			name := "a/../%2f?&#" + t.Name()
			h := kindtest.Lock(t, rlock.New(client, name))
			page := newPage(t, srv.Client(t), quick(holdfastweb.Options{Permit: anybody}))
			service := httptest.NewUnstartedServer(c.wrap(page))
			service.EnableHTTP2 = c.h2
			if c.h2 {
				service.StartTLS()
			} else {
				service.Start()
			}
			t.Cleanup(func() { page.Close(); service.Close() })
			front := behind(t, service, prefix)
			at := func(link string) string { return front.URL + prefix + strings.ReplaceAll(link, "&amp;", "&") }

			watch(t, at("events")).hears("the list", func(u update) bool { return u.has("/../%2f?&amp;#") })
			link := regexp.MustCompile(`href="(lock[^"]*BehindProxies[^"]*)"`).FindStringSubmatch(fetched(t, http.MethodGet, at(""), http.StatusOK))
			require.NotNil(t, link)
			body := fetched(t, http.MethodGet, at(link[1]), http.StatusOK)
			require.Contains(t, body, h.Owner())
			end := regexp.MustCompile(`href="(end\?[^"]*)"`).FindStringSubmatch(body)
			require.NotNil(t, end)
			form := regexp.MustCompile(`action="(end\?[^"]*)"`).FindStringSubmatch(fetched(t, http.MethodGet, at(end[1]), http.StatusOK))
			require.NotNil(t, form)
			// A browser that says nothing but where it comes from, and a proxy that hides that: refused, with what to do.
			body = fetched(t, http.MethodPost, at(form[1]), http.StatusForbidden, "Origin", front.URL)
			require.Contains(t, body, "TrustedOrigins")
			require.Contains(t, body, "keep the Host header")
			fetched(t, http.MethodPost, at(form[1]), http.StatusOK, "Origin", front.URL, "Sec-Fetch-Site", "same-origin")
			require.False(t, standing(t, srv.Client(t), name))
		})
	}
}

// fetched is the body of an answer with a status.
func fetched(t *testing.T, method, url string, status int, header ...string) string {
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, status, res.StatusCode, string(body))
	return string(body)
}

// timed notes when something was written to it.
type timed struct {
	*httptest.ResponseRecorder
	at []time.Time
}

func (w *timed) Write(p []byte) (int, error) {
	w.at = append(w.at, time.Now())
	return w.ResponseRecorder.Write(p)
}

// stream is what a live page sends in a minute, of a Redis without locks that answers each of so many steps of SCAN late.
func stream(t *testing.T, steps int, each time.Duration) *timed {
	w := &timed{ResponseRecorder: httptest.NewRecorder()}
	synctest.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nobody dials it
		defer rdb.Close()
		rdb.AddHook(redistest.Around(func(_ func() error, cmds ...redis.Cmder) error {
			<-time.After(each)
			step, _ := cmds[0].Args()[1].(uint64)                        // the cursor, of each pass its own
			cmds[0].(*redis.ScanCmd).SetVal(nil, (step+1)%uint64(steps)) //nolint:gosec // few
			return nil
		}))
		page, err := holdfastweb.New(rdb, &holdfastweb.Options{Every: time.Hour})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		page.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events", nil))
		page.Close()
	})
	return w
}

// TestIdleStreamIsHeard: an idle stream says so often enough for a proxy that cuts what was silent for five seconds.
func TestIdleStreamIsHeard(t *testing.T) {
	w := stream(t, 1, 0)
	require.Greater(t, len(w.at), 10)
	for n := range w.at[1:] {
		require.LessOrEqual(t, w.at[n+1].Sub(w.at[n]), 3*time.Second)
	}
}

// TestFarServerIsNotSilent: a far server takes long for many keys, but keeps answering. The control's one answer takes as long.
func TestFarServerIsNotSilent(t *testing.T) {
	far, silent := stream(t, 70, 160*time.Millisecond).Body.String(), stream(t, 1, 70*160*time.Millisecond).Body.String()
	require.NotContains(t, far, "has not answered since")
	require.Contains(t, far, "No locks held or waited for")
	require.Contains(t, silent, "has not answered since", "control")
}
