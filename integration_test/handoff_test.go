package integration_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// queued is how many goroutines wait in the local queues of all clients.
func queued() int {
	stacks := make([]byte, 4<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "queue.(*Ticket).Wait(")
}

// throng locks and unlocks in several goroutines of a client. None unlocks before another one
// waits, so it could go on for ever.
type throng struct {
	grants atomic.Int64
	cancel context.CancelFunc
	group  sync.WaitGroup
}

func newThrong(t *testing.T, m *rlock.Mutex) *throng {
	t.Helper()
	g := &throng{}
	ctx, cancel := context.WithCancel(t.Context())
	g.cancel = cancel
	for range 4 {
		g.group.Go(func() {
			for ctx.Err() == nil {
				h, err := m.Lock(ctx)
				if err != nil {
					return
				}
				for ctx.Err() == nil && queued() == 0 {
					runtime.Gosched()
				}
				g.grants.Add(1)
				if err := h.Unlock(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	return g
}

func (g *throng) stop() {
	g.cancel()
	g.group.Wait()
}

// javaWaiter is a waiter of Redisson's, by what it sends: it subscribes, tries, and tries again at
// each message. (Recorded from 4.7.)
type javaWaiter struct {
	rdb  redis.UniversalClient
	sub  *redis.PubSub
	name string
}

const javaOwner = "8743c9c0-0795-4907-87fd-6c719a6b4586:1"

// lock tries once.
func (j *javaWaiter) lock(t *testing.T) bool {
	t.Helper()
	left, err := j.rdb.Eval(t.Context(), `if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
		redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil end
		return redis.call('pttl', KEYS[1])`, []string{j.name}, 30000, javaOwner).Result()
	if err != redis.Nil { //nolint:errorlint // as go-redis documents it
		require.NoError(t, err)
	}
	return left == nil
}

func (j *javaWaiter) unlock(t *testing.T, publish string) {
	t.Helper()
	require.NoError(t, j.rdb.Eval(t.Context(), `redis.call('del', KEYS[1]); return redis.call(ARGV[1], KEYS[2], '0')`,
		[]string{j.name, "redisson_lock__channel:{" + j.name + "}"}, publish).Err())
}

// TestJavaWaitsForAThrong: a client's goroutines hand the lock on among each other without end. A
// waiter of Redisson's gets it, and they get it back.
func TestJavaWaitsForAThrong(t *testing.T) {
	onOutermost(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rdb := srv.Client(t)
		m := rlock.New(newClient(t, rdb, nil), "foo")
		g := newThrong(t, m)
		defer g.stop()
		goesOn(t, g, 50)
		for range 3 {
			j := &javaWaiter{rdb: rdb, name: "foo", sub: rdb.Subscribe(t.Context(), "redisson_lock__channel:{foo}")}
			_, err := j.sub.Receive(t.Context())
			require.NoError(t, err)
			from, released := g.grants.Load(), 0
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			for !j.lock(t) {
				_, err := j.sub.ReceiveMessage(ctx)
				require.NoError(t, err, "nobody let it go, in %d grants", g.grants.Load()-from)
				released++
			}
			cancel()
			t.Logf("had it after %d grants and %d releases", g.grants.Load()-from, released)
			require.NoError(t, j.sub.Close())
			j.unlock(t, "PUBLISH")
			goesOn(t, g, 50)
		}
	})
}

// goesOn waits for more grants.
func goesOn(t *testing.T, g *throng, more int64) {
	t.Helper()
	want := g.grants.Load() + more
	require.Eventually(t, func() bool { return g.grants.Load() >= want }, patience, time.Millisecond)
}

// TestJavaWaitsForAThrongControl: without the look at who listens, and without the end of the
// reserved tokens, a thousand grants pass it by.
func TestJavaWaitsForAThrongControl(t *testing.T) {
	defer defence.Look.Without(t)()
	defer defence.Reserved.Without(t)()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	g := newThrong(t, rlock.New(newClient(t, rdb, nil), "foo"))
	defer g.stop()
	goesOn(t, g, 50)
	j := &javaWaiter{rdb: rdb, name: "foo", sub: rdb.Subscribe(t.Context(), "redisson_lock__channel:{foo}")}
	defer j.sub.Close()
	_, err := j.sub.Receive(t.Context())
	require.NoError(t, err)
	goesOn(t, g, 1000)
	require.False(t, j.lock(t))
	select {
	case <-j.sub.Channel():
		t.Fatal("it was released")
	default:
	}
}
