package kindtest

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// The packages of the kinds have what is in this file under short names, in their main_test.go.

// Patience is how long a test waits for what must come, on however slow a machine.
const Patience = 20 * time.Second

// Eventually waits for a condition; a test that needs it to hold says so with what.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, Patience, 2*time.Millisecond, what)
}

// Receive waits for a value, and names it by what if it does not come.
func Receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(Patience):
		require.FailNow(t, "it does not come", what)
		panic("not reached")
	}
}

// NewClient makes a client of the library on a Redis client, closed at the end of the test.
func NewClient(t testing.TB, rdb redis.UniversalClient, opts *holdfast.Options) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(rdb, opts)
	require.NoError(t, err)
	redistest.CloseAtEnd(t, c)
	return c
}

// Shared makes a client of the library on the package's server.
func Shared(t testing.TB, opts *holdfast.Options) (*holdfast.Client, *redis.Client) {
	t.Helper()
	rdb := redistest.Shared(t).Client(t)
	return NewClient(t, rdb, opts), rdb
}

// names counts what UniqueName has given out.
var names atomic.Int64

// UniqueName is a lock name that no other test uses, nor the same one when it runs again. A count is
// enough: no server is shared with another process.
func UniqueName(t testing.TB) string { return fmt.Sprintf("%s:%d", t.Name(), names.Add(1)) }

// Behind makes a Redis client behind a proxy. It gives a silent connection up after read.
func Behind(t testing.TB, addr string, read time.Duration, hooks ...redis.Hook) (*redis.Client, *faultproxy.Proxy) {
	t.Helper()
	proxy := faultproxy.New(t, addr)
	rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = read })
	return Hooked(rdb, hooks...), proxy
}

// Hooked adds hooks to a Redis client, which mostly edit scripts.
func Hooked(rdb *redis.Client, hooks ...redis.Hook) *redis.Client {
	for _, hook := range hooks {
		rdb.AddHook(hook)
	}
	return rdb
}

// script is one of package lua, which a suite for all kinds does not know.
type script interface {
	Name() string
	Hash() string
	Text() string
}

// Script matches the first sending of a script that the server may or may not know already.
func Script(s script) func(args []string) bool { return faultproxy.Script(s.Hash()) }

// Load makes scripts known to a server, so that each call of them is one request.
func Load[S script](t testing.TB, rdb *redis.Client, scripts ...S) {
	t.Helper()
	for _, s := range scripts {
		require.NoError(t, rdb.ScriptLoad(t.Context(), s.Text()).Err())
	}
}

// faults are what can happen to one command between client and server.
var faults = []faultproxy.Action{faultproxy.DropReply, faultproxy.DropRequest, faultproxy.Cut, faultproxy.BlackHole}

// EachFault runs a test for each of the faults that can happen to one command between client and server.
func EachFault(t *testing.T, test func(t *testing.T, fault faultproxy.Action)) {
	for _, fault := range faults {
		t.Run(fault.String(), func(t *testing.T) { test(t, fault) })
	}
}

// Strike has the next sending of a script meet a fault, and demands that it has when the test ends.
func Strike(t *testing.T, proxy *faultproxy.Proxy, s script, fault faultproxy.Action) {
	t.Helper()
	proxy.Clear()
	rule := proxy.On(Script(s), 1, fault)
	t.Cleanup(func() { require.Equal(t, 1, rule.Count(), s.Name()) })
}

// Goroutines is how many of the process have a function with this in its name on their stacks.
func Goroutines(function string) int {
	stacks := make([]byte, 8<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), function)
}
