package kindtest

import (
	"context"
	"errors"
	"fmt"
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

// Crowd is goroutines of several clients of one server, which lock and unlock all at once, so that much
// of it travels together, until faults have happened to some scripts.
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

// Fault is what happens to the nth request that matches.
type Fault func(p *faultproxy.Proxy, match func([]string) bool, nth int) *faultproxy.Rule

// Faults are those of one command, and that the network delivers it late as well.
func Faults() map[string]Fault {
	all := map[string]Fault{
		"executed late": func(p *faultproxy.Proxy, match func([]string) bool, nth int) *faultproxy.Rule {
			return p.KeepRequest(match, nth, 20*time.Millisecond) // and the repeats before it
		},
	}
	for _, fault := range faults {
		all[fault.String()] = func(p *faultproxy.Proxy, match func([]string) bool, nth int) *faultproxy.Rule {
			return p.On(match, nth, fault)
		}
	}
	return all
}

// room is who is inside of one name.
type room struct {
	inside atomic.Int64
	last   atomic.Uint64 // token
}

// Meet returns what went wrong: an operation failed, two were inside, or the server said something else.
func (c Crowd) Meet(t *testing.T, fault Fault) error {
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
		h, err := l.Lock(ctx, holdfast.Wait(patience))
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
		client := NewClient(t, rdb, nil)
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
		require.Contains(t, key, "token", "it is left")
		require.Positive(t, direct.PTTL(ctx, key).Val(), "key %s has no time to live", key)
	}
	return nil
}

// Chain locks and unlocks in so many goroutines of one client, each so often, and checks what one
// grant sees of the one before it. It returns the tokens in the order of the grants.
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
