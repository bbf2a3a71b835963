package kindtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
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

// Acquire is Lock or TryLock of any kind, or what takes their place: RLock, or some permits.
type Acquire func(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error)

// Lock takes a lock that is free, or about to be, under the context of the test.
func Lock(tb testing.TB, l holdfast.Locker, opts ...holdfast.Option) *holdfast.Hold {
	return Take(tb.Context(), tb, l.Lock, opts...)
}

// Take acquires what is free, or about to be.
func Take(ctx context.Context, tb testing.TB, acquire Acquire, opts ...holdfast.Option) *holdfast.Hold {
	h, err := acquire(ctx, opts...)
	require.NoError(tb, err)
	return h
}

// Unlock gives holds back, in this order.
func Unlock(tb testing.TB, holds ...*holdfast.Hold) {
	for _, h := range holds {
		require.NoError(tb, h.Unlock(context.WithoutCancel(tb.Context())))
	}
}

// Unheard unlocks a hold where the answer may be lost, and returns nil if what it says is right: all is well, or, if
// others have had the lock by then, nobody knows.
func Unheard(ctx context.Context, h *holdfast.Hold) error {
	err := h.Unlock(ctx)
	if errors.Is(err, holdfast.ErrUncertain) && !errors.Is(err, holdfast.ErrUnavailable) {
		return nil
	}
	return err
}

// Ended waits until the context of a hold ends, and returns why.
func Ended(tb testing.TB, h *holdfast.Hold) error {
	select {
	case <-h.Context().Done():
		return context.Cause(h.Context())
	case <-time.After(patience):
		require.FailNow(tb, "the hold's context does not end")
		return nil
	}
}

// Pending is an acquisition in a goroutine.
type Pending struct {
	tb   testing.TB
	done chan struct{}
	hold *holdfast.Hold
	err  error
}

// Begin acquires in a goroutine, which ends with the context.
func Begin(ctx context.Context, tb testing.TB, acquire Acquire, opts ...holdfast.Option) *Pending {
	p := &Pending{tb: tb, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.hold, p.err = acquire(ctx, opts...)
	}()
	return p
}

// Over reports whether there is a result, without waiting for it.
func (p *Pending) Over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Result waits for what came of it.
func (p *Pending) Result() (*holdfast.Hold, error) {
	select {
	case <-p.done:
		return p.hold, p.err
	case <-time.After(patience):
		require.FailNow(p.tb, "it waits still")
		return nil, nil
	}
}

// Hold waits for the grant.
func (p *Pending) Hold() *holdfast.Hold {
	h, err := p.Result()
	require.NoError(p.tb, err)
	return h
}

// Err waits for the error.
func (p *Pending) Err() error {
	h, err := p.Result()
	require.Nil(p.tb, h, "granted")
	return err
}

// First waits until one of several is over, and returns which.
func First(tb testing.TB, calls ...*Pending) (i int) {
	require.Eventually(tb, func() bool {
		i = slices.IndexFunc(calls, (*Pending).Over)
		return i >= 0
	}, patience, time.Millisecond, "none of them gets it")
	return i
}

// InTurn lets all who wait have the lock, in whatever order they come.
func InTurn(tb testing.TB, inside func(h *holdfast.Hold), calls ...*Pending) {
	for len(calls) > 0 {
		i := First(tb, calls...)
		h := calls[i].Hold()
		inside(h)
		Unlock(tb, h)
		calls = slices.Delete(calls, i, i+1)
	}
}

// Refused demands that somebody else has what is asked for, and returns what the caller is told.
func Refused(ctx context.Context, tb testing.TB, acquire Acquire, opts ...holdfast.Option) error {
	_, err := acquire(ctx, opts...)
	require.ErrorIs(tb, err, holdfast.ErrNotAcquired)
	return err
}

// The packages of the kinds have what is in this file under short names, in their main_test.go.

// Patience is how long a test waits for what must come, on however slow a machine.
const Patience = 20 * time.Second

// Eventually waits for a condition; a test that needs it to hold says so with what.
func Eventually(t testing.TB, what string, cond func() bool) {
	require.Eventually(t, cond, Patience, 2*time.Millisecond, what)
}

// Receive waits for a value, and names it by what if it does not come.
func Receive[T any](t testing.TB, what string, c <-chan T) T {
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
	c, err := holdfast.New(rdb, opts)
	require.NoError(t, err)
	redistest.CloseAtEnd(t, c)
	return c
}

// Shared makes a client of the library on the package's server.
func Shared(t testing.TB, opts *holdfast.Options) (*holdfast.Client, *redis.Client) {
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
	proxy.Clear()
	rule := proxy.On(Script(s), 1, fault)
	t.Cleanup(func() { require.Equal(t, 1, rule.Count(), s.Name()) })
}

// Goroutines is how many of the process have a function with this in its name on their stacks.
func Goroutines(function string) int {
	stacks := make([]byte, 8<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), function)
}

// State is what a lock of any kind says of itself.
func State[S any](tb testing.TB, l interface {
	State(ctx context.Context) (S, error)
}) S {
	s, err := l.State(tb.Context())
	require.NoError(tb, err)
	return s
}

// Forced frees a lock of its holder, and demands that there is one.
func Forced(tb testing.TB, l interface {
	ForceUnlock(ctx context.Context) (bool, error)
}) {
	there, err := l.ForceUnlock(tb.Context())
	require.NoError(tb, err)
	require.True(tb, there)
}
