package holdfastweb_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// patience is how long a test waits for what must come, on however busy a machine.
const patience = 30 * time.Second

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, patience, 2*time.Millisecond, what)
}

// owner is one whom no test has.
const owner = "11111111-2222-4333-8444-555555555555:h1"

// held makes a lock that it has, without an end.
func held(t *testing.T, rdb redis.UniversalClient, name string) {
	t.Helper()
	require.NoError(t, rdb.HSet(t.Context(), name, owner, 1).Err())
	require.NoError(t, rdb.Set(t.Context(), keys.For(name).Token, 5000, time.Hour).Err())
}

// quick are options with which a page spares no server, so that tests need not wait.
func quick(o holdfastweb.Options) *holdfastweb.Options {
	o.Share, o.Every = 1, 100*time.Millisecond
	return &o
}

func newPage(t testing.TB, rdb redis.UniversalClient, opts *holdfastweb.Options) *holdfastweb.Handler {
	t.Helper()
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
	t.Helper()
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
	t.Helper()
	return ask(t, h, http.MethodGet, target)
}

// notes is a log that tests read.
type notes struct {
	mu  sync.Mutex // guards buf
	buf strings.Builder
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.buf.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.buf.String()
}

func (n *notes) logger() *slog.Logger { return slog.New(slog.NewTextHandler(n, nil)) }
