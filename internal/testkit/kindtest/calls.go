package kindtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// Crowd is goroutines of several clients that lock and unlock at once, travelling together, until scripts have met faults.
type Crowd struct {
	Clients, Each int // goroutines of each client
	Names         int // the i-th of them takes the name i modulo this
	Times         int // at least
	New           func(c *holdfast.Client, name string) holdfast.Locker
	Scripts       []string // are known to the server
	Hit           func(args []string) bool
	At            []int // the how manieth of them
	Hook          redis.Hook
}

// hit is what happens to the nth request that matches.
type hit func(p *faultproxy.Proxy, match func([]string) bool, nth int) *faultproxy.Rule

// Meet has each fault of one command happen, and that the network delivers it late as well.
func (c Crowd) Meet(t *testing.T) {
	all := map[string]hit{
		"executed late": func(p *faultproxy.Proxy, match func([]string) bool, nth int) *faultproxy.Rule {
			return p.KeepRequest(match, nth, 20*time.Millisecond) // and the repeats before it
		},
	}
	for _, fault := range faults {
		all[fault.String()] = func(p *faultproxy.Proxy, match func([]string) bool, nth int) *faultproxy.Rule {
			return p.On(match, nth, fault)
		}
	}
	for name, fault := range all {
		t.Run(name, func(t *testing.T) { require.NoError(t, c.meet(t, fault)) })
	}
}

// room is who is inside of one name.
type room struct {
	inside atomic.Int64
	last   atomic.Uint64 // token
}

// meet returns what went wrong: an operation failed, two were inside, or the server said something else.
func (c Crowd) meet(t *testing.T, fault hit) error {
	srv := redistest.Start(t)
	proxy, direct := faultproxy.New(t, srv.Addr()), srv.Client(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for _, text := range c.Scripts {
		require.NoError(t, direct.ScriptLoad(ctx, text).Err())
	}
	var rules []*faultproxy.Rule
	for _, nth := range c.At {
		rules = append(rules, fault(proxy, c.Hit, nth))
	}
	rooms := make([]room, c.Names)
	name := func(i int) string { return fmt.Sprint("crowd:", i%c.Names) }
	one := func(l holdfast.Locker, r *room) error {
		h, err := l.Lock(ctx, holdfast.Wait(time.Minute))
		if err != nil {
			return err
		}
		if n := r.inside.Add(1); n != 1 {
			err = fmt.Errorf("%s has %d holders", l.Name(), n)
		}
		if before := r.last.Swap(h.Token()); before >= h.Token() {
			err = errors.Join(err, fmt.Errorf("token %d after %d", h.Token(), before))
		}
		if fields := direct.HGetAll(ctx, l.Name()).Val(); len(fields) != 1 || fields[h.Owner()] != "1" {
			err = errors.Join(err, fmt.Errorf("%s is held by %s; the server says %v", l.Name(), h.Owner(), fields))
		}
		r.inside.Add(-1)
		return errors.Join(err, Unheard(ctx, h))
	}
	deadline := time.Now().Add(time.Minute)
	var failed atomic.Pointer[error]
	over := func() bool { // who fails locks no more, so that faults may not happen any more
		return failed.Load() != nil || time.Now().After(deadline) ||
			!slices.ContainsFunc(rules, func(r *faultproxy.Rule) bool { return r.Count() == 0 })
	}
	var g sync.WaitGroup
	var clients []*holdfast.Client
	for range c.Clients {
		rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = farTimeout })
		if c.Hook != nil {
			rdb.AddHook(c.Hook)
		}
		client := NewClient(t, rdb, &holdfast.Options{RetryBudget: time.Minute}) // a busy machine answers late again and again
		clients = append(clients, client)
		for i := range c.Each {
			l := c.New(client, name(i))
			g.Go(func() {
				for n := 0; n < c.Times || !over(); n++ {
					if err := one(l, &rooms[i%c.Names]); err != nil {
						failed.CompareAndSwap(nil, &err)
						leave() // the others need not wait for what may never come
						return
					}
				}
			})
		}
	}
	g.Wait()
	for _, client := range clients {
		require.NoError(t, client.Close(context.WithoutCancel(ctx))) // joins what is done in the background
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	ctx = context.WithoutCancel(ctx)
	for _, rule := range rules {
		require.Equal(t, 1, rule.Count(), "so many did travel together")
	}
	for _, key := range direct.Keys(ctx, "*").Val() {
		require.Regexp(t, "token|channel", key, "it is left") // a head start has the channel's name
		require.Positive(t, direct.PTTL(ctx, key).Val(), "key %s has no time to live", key)
	}
	return nil
}

// Chain locks and unlocks in goroutines of one client, and checks what a grant sees of the last. Tokens are in grant order.
func Chain(t *testing.T, l holdfast.Locker, goroutines, rounds int, opts ...holdfast.Option) (tokens []uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	var before context.Context // of the last holder; guarded by the lock, as tokens are
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			for range rounds {
				h, err := l.Lock(ctx, opts...)
				if err != nil {
					t.Error(err)
					return
				}
				if before != nil && context.Cause(before) != holdfast.ErrReleased { //nolint:errorlint // exactly that one
					t.Errorf("the hold before has not ended: %v", context.Cause(before))
				}
				before, tokens = h.Context(), append(tokens, h.Token())
				if err := h.Unlock(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.Len(t, tokens, goroutines*rounds)
	return tokens
}

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

// Pair locks and unlocks, for goroutines that may not end the test.
func Pair(ctx context.Context, l holdfast.Locker, opts ...holdfast.Option) error {
	h, err := l.Lock(ctx, opts...)
	if err == nil {
		err = h.Unlock(ctx)
	}
	return err
}

// Unheard unlocks where the answer may be lost. Nil: it says that all is well or, once others had the lock, that nobody knows.
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
	err := Err(acquire(ctx, opts...))
	require.ErrorIs(tb, err, holdfast.ErrNotAcquired)
	return err
}

// Err is the error of a call.
func Err[T any](_ T, err error) error { return err }

// Tells demands of an error each of what it is given: an error that it is, a text that it has in it, or an error that it is [Not].
func Tells(tb testing.TB, err error, wants ...any) {
	for _, want := range wants {
		switch want := want.(type) {
		case unwanted:
			require.NotErrorIs(tb, err, want.error)
		case error:
			require.ErrorIs(tb, err, want)
		default:
			require.ErrorContains(tb, err, want.(string))
		}
	}
}

type unwanted struct{ error }

// Not is, to [Tells], an error that it must not be.
func Not(err error) any { return unwanted{err} }

// The packages of the kinds have what follows under short names, in their main_test.go.

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

// Unlabelled are the options without the default label, so that a client sends only what the test makes it send. A label
// that the test chose stays.
func Unlabelled(opts *holdfast.Options) *holdfast.Options {
	var o holdfast.Options
	if opts != nil {
		o = *opts
	}
	if o.Label == "" {
		o.Label = holdfast.NoLabel
	}
	return &o
}

// NewClient makes a client of the library on a Redis client, closed at the end of the test. It has no label of its own
// accord: see [Unlabelled].
func NewClient(t testing.TB, rdb redis.UniversalClient, opts *holdfast.Options) *holdfast.Client {
	c, err := holdfast.New(rdb, Unlabelled(opts))
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

// UniqueName is a lock name that no other run or test uses. A count is enough: no other process shares the server.
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
	for size := 8 << 20; ; size *= 2 {
		stacks := make([]byte, size)
		if n := runtime.Stack(stacks, true); n < size {
			return bytes.Count(stacks[:n], []byte(function))
		}
	}
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
