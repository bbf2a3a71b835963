package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// together counts the commands that travelled with others.
type together struct{ commands atomic.Int64 }

func (h *together) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (h *together) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h *together) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "evalsha" {
			h.commands.Add(int64(len(cmds)))
		}
		return next(ctx, cmds)
	}
}

// manyNames has 64 goroutines lock and unlock a name each, while a fault happens to every 20th
// script. It returns what went wrong.
func manyNames(t *testing.T, fault faultproxy.Action) error {
	t.Helper()
	srv := redistest.Start(t)
	proxy, seen := faultproxy.New(t, srv.Addr()), &together{}
	rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = 500 * time.Millisecond })
	rdb.AddHook(seen)
	client, direct := newClient(t, rdb, nil), srv.Client(t)
	warm(t, &proxied{srv, proxy, direct, client, rlock.New(client, "a")})
	var rules []*faultproxy.Rule
	for nth := 20; nth <= 200; nth += 20 {
		rules = append(rules, proxy.On(faultproxy.Command("EVALSHA"), nth, fault))
	}
	var g sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for i := range 64 {
		g.Go(func() {
			m := rlock.New(client, fmt.Sprint("many:", i))
			for range 6 {
				if err := pair(t.Context(), direct, m); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	g.Wait()
	for _, rule := range rules {
		require.Equal(t, 1, rule.Count())
	}
	require.Positive(t, seen.commands.Load(), "some travelled together")
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	require.NoError(t, client.Close(t.Context())) // joins what is done in the background
	for _, key := range direct.Keys(t.Context(), "*").Val() {
		require.Positive(t, direct.PTTL(t.Context(), key).Val(), "key %s has no time to live", key)
	}
	for i := range 64 {
		require.Zero(t, direct.Exists(t.Context(), fmt.Sprint("many:", i)).Val())
	}
	return nil
}

// pair locks, looks at the server and unlocks.
func pair(ctx context.Context, direct *redis.Client, m *rlock.Mutex) error {
	h, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	if fields := direct.HGetAll(ctx, m.Name()).Val(); len(fields) != 1 || fields[h.Owner()] != "1" {
		err = fmt.Errorf("%s is held by %s; the server says %v", m.Name(), h.Owner(), fields)
	}
	return errors.Join(err, h.Unlock(ctx))
}

// TestManyNamesMeetFaults: operations on many names travel together, and connections break under
// them. Each is repeated, and happens once.
func TestManyNamesMeetFaults(t *testing.T) {
	for _, fault := range faults {
		t.Run(fault.String(), func(t *testing.T) { require.NoError(t, manyNames(t, fault)) })
	}
}

// The control: without the repeats of the library the faults reach the callers.
func TestManyNamesMeetFaultsControl(t *testing.T) {
	t.Cleanup(defence.Resend.Without(t))
	require.ErrorIs(t, manyNames(t, faultproxy.Cut), holdfast.ErrUncertain)
}
