package holdfastweb_test

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
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
	t.Helper()
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

// TestBehindProxies: below a path that the service does not know of, compressed or not, over HTTP/1.1 or 2, the
// page is read, live, and ends a hold, by the links that are in it.
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
	t.Helper()
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

// stream is what a live page sends in a minute, of a Redis with keys and no locks that answers each of so many
// steps through its keys after a while.
func stream(t *testing.T, steps int, each time.Duration) *timed {
	t.Helper()
	w := &timed{ResponseRecorder: httptest.NewRecorder()}
	synctest.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nobody dials it
		defer rdb.Close()
		step := 0
		rdb.AddHook(redistest.Around(func(_ func() error, cmds ...redis.Cmder) error {
			<-time.After(each)
			step++
			cmds[0].(*redis.ScanCmd).SetVal(nil, uint64(step%steps)) //nolint:gosec // few
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

// TestIdleStreamIsHeard: where there is nothing new a stream says so, soon enough for a proxy that cuts what was
// silent for five seconds.
func TestIdleStreamIsHeard(t *testing.T) {
	w := stream(t, 1, 0)
	require.Greater(t, len(w.at), 10)
	for n := range w.at[1:] {
		require.LessOrEqual(t, w.at[n+1].Sub(w.at[n]), 3*time.Second)
	}
}

// TestFarServerIsNotSilent: many keys and no locks take a server that is far away longer than the page takes
// to call one silent. It has answered all the while. The control takes as long for one answer.
func TestFarServerIsNotSilent(t *testing.T) {
	far, silent := stream(t, 70, 160*time.Millisecond).Body.String(), stream(t, 1, 70*160*time.Millisecond).Body.String()
	require.NotContains(t, far, "has owed an answer")
	require.Contains(t, far, "No locks that anybody has")
	require.Contains(t, silent, "has owed an answer", "control")
}
