package holdfastweb_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/hostile"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// patience is how long a test waits for what must come, on however busy a machine.
const patience = 30 * time.Second

func eventually(t *testing.T, what string, cond func() bool) {
	require.Eventually(t, cond, patience, 2*time.Millisecond, what)
}

// owner is one whom no test has.
const owner = "11111111-2222-4333-8444-555555555555:h1"

// held makes a lock that it has, without an end.
func held(t *testing.T, rdb redis.UniversalClient, name string) {
	require.NoError(t, rdb.HSet(t.Context(), name, owner, 1).Err())
	require.NoError(t, rdb.Set(t.Context(), keys.For(name).Token, 5000, time.Hour).Err())
}

// quick are options with which a page spares no server, so that tests need not wait.
func quick(o holdfastweb.Options) *holdfastweb.Options {
	o.Share, o.Every = 1, 100*time.Millisecond
	return &o
}

func newPage(t testing.TB, rdb redis.UniversalClient, opts *holdfastweb.Options) *holdfastweb.Handler {
	h, err := holdfastweb.New(rdb, opts)
	require.NoError(t, err)
	t.Cleanup(h.Close)
	return h
}

// answer is what came of a request.
type answer struct {
	*http.Response
	body string
}

func ask(t testing.TB, h http.Handler, method, target string, header ...string) answer {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return answer{res, string(body)}
}

func get(t testing.TB, h http.Handler, target string) answer {
	return ask(t, h, http.MethodGet, target)
}

// TestMounted: at the root, below a path with it or without, and where a slash is missing.
func TestMounted(t *testing.T) {
	srv := redistest.Shared(t)
	kindtest.Lock(t, rlock.New(kindtest.NewClient(t, srv.Client(t), nil), t.Name()))
	page := newPage(t, srv.Client(t), quick(holdfastweb.Options{}))
	below, exact := http.NewServeMux(), http.NewServeMux()
	below.Handle("/a/b/", page)
	exact.Handle("/a/b", http.StripPrefix("/a/b", page))
	for what, mount := range map[string]struct {
		h    http.Handler
		path string
	}{
		"root": {page, "/"}, "below": {below, "/a/b/"}, "stripped": {http.StripPrefix("/a/b", page), "/a/b/"}, "all stripped": {http.StripPrefix("/", page), "/"},
	} {
		require.Contains(t, get(t, mount.h, mount.path).body, t.Name(), what)
		require.Contains(t, get(t, mount.h, mount.path+"lock?name="+t.Name()).body, "Held by", what)
		require.Equal(t, "text/css; charset=utf-8", get(t, mount.h, mount.path+"style.css").Header.Get("Content-Type"), what)
		require.Equal(t, http.StatusNotFound, get(t, mount.h, mount.path+"nothing").StatusCode, what)
	}
	for h, target := range map[http.Handler]string{exact: "/a/b?match=x", below: "/a/b?match=x"} {
		a := get(t, h, target)
		require.Contains(t, []int{301, 307}, a.StatusCode)
		to, err := a.Location()
		require.NoError(t, err)
		if !to.IsAbs() || to.Host == "" {
			require.Contains(t, []string{"./b/?match=x", "/a/b/?match=x"}, to.String())
		}
	}
}

// TestHeaders: every answer forbids what the page does not need, and no link leads elsewhere.
func TestHeaders(t *testing.T) {
	srv := redistest.Shared(t)
	page := newPage(t, srv.Client(t), quick(holdfastweb.Options{Permit: anybody}))
	for _, target := range []string{"/", "/lock?name=x", "/end?name=x", "/nothing", "/style.css", "/page.js", "/icon.svg", "/lock?name=a%7Db", "/lock"} {
		a := get(t, page, target)
		csp := a.Header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"} {
			require.Contains(t, csp, part, target)
		}
		require.NotContains(t, csp, "unsafe", target)
		require.Equal(t, "nosniff", a.Header.Get("X-Content-Type-Options"))
		require.NotContains(t, strings.ReplaceAll(a.body, "http://www.w3.org/2000/svg", ""), "://", "%s: nothing is loaded from elsewhere", target)
		require.NotRegexp(t, `(?i)<[^>]*\s(on\w+|style)\s*=`, a.body, "%s: the policy would refuse it", target)
		require.NotRegexp(t, `(href|src|action)="/`, a.body, "%s: links are relative", target)
	}
	require.Equal(t, http.StatusMethodNotAllowed, ask(t, page, "POST", "/").StatusCode)
	require.Equal(t, http.StatusMethodNotAllowed, ask(t, page, "PUT", "/lock?name=x").StatusCode)
}

// TestAnyAddress: nothing in an address is an error of the page.
func TestAnyAddress(t *testing.T) {
	srv := redistest.Shared(t)
	page := newPage(t, srv.Client(t), quick(holdfastweb.Options{}))
	for _, target := range []string{
		"/?page=-1", "/?page=999999999999999999999", "/?page=7&sort=-since", "/?sort=nothing&kind=x&show=y", "/?match=" + strings.Repeat("*%5B", 500), "/?match=%FF%00",
		"/?%zz", "/lock?name=%FF%FE", "/lock?name=" + strings.Repeat("x", 9000),
	} {
		a := get(t, page, target)
		require.Equal(t, http.StatusOK, a.StatusCode, target)
	}
	require.Equal(t, http.StatusNotFound, get(t, page, "/lock?name=").StatusCode)
}

// TestFilterIsShown: a filter stands in the page as what others wrote does: of whole characters, which do nothing.
func TestFilterIsShown(t *testing.T) {
	page := newPage(t, redistest.Shared(t).Client(t), quick(holdfastweb.Options{}))
	for _, text := range append(hostile.Texts, "\xff*", "\x1b[2J\u009b\u202e", "x"+strings.Repeat("é", 150)) {
		hostile.Check(t, fmt.Sprintf("%.40q", text), get(t, page, "/?"+url.Values{"match": {text}}.Encode()).body)
	}
	require.Contains(t, get(t, page, "/?match=orders:*").body, `value="orders:*"`)
	require.Contains(t, get(t, page, "/?match=x"+strings.Repeat("%C3%A9", 150)).body, `value="x`+strings.Repeat("é", 99)+`"`)
}

// TestOptions: what cannot be is refused with the field, the value and what would be right.
func TestOptions(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	for says, o := range map[string]holdfastweb.Options{
		"Share is 1.5; use":       {Share: 1.5},
		"Share is -1; use":        {Share: -1},
		"Every is 1ms; use":       {Every: time.Millisecond},
		"MaxLocks is -1; use":     {MaxLocks: -1},
		"Rows is 501; use 1 to":   {Rows: 501},
		"MaxViewers is -3; use":   {MaxViewers: -3},
		`TrustedOrigins has "x"`:  {TrustedOrigins: []string{"x"}},
		"pass a go-redis client":  {Masters: []redis.UniversalClient{(*redis.Client)(nil)}},
		"pass a *redis.Client or": {Masters: []redis.UniversalClient{nil}},
	} {
		require.ErrorContains(t, kindtest.Err(holdfastweb.New(rdb, &o)), says)
	}
	h, err := holdfastweb.New(rdb, nil)
	require.NoError(t, err)
	h.Close()
	h.Close()
	require.Equal(t, http.StatusServiceUnavailable, get(t, h, "/").StatusCode)
}
