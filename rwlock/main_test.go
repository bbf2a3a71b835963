package rwlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rwlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const patience = kindtest.Patience

var (
	eventually = kindtest.Eventually
	newClient  = kindtest.NewClient
	uniqueName = kindtest.UniqueName
)

// lab is a name on the package's server.
type lab struct {
	testing.TB
	rdb  *redis.Client
	name string
}

func newLab(t testing.TB) *lab {
	t.Helper()
	return &lab{t, redistest.Shared(t).Client(t), uniqueName(t)}
}

// process is the lock for a client of its own.
func (l *lab) process(opts *holdfast.Options) *rwlock.RWMutex {
	l.Helper()
	return rwlock.New(newClient(l.TB, redistest.Shared(l.TB).Client(l.TB), opts), l.name)
}

func (l *lab) fields() map[string]string {
	l.Helper()
	all, err := l.rdb.HGetAll(context.Background(), l.name).Result()
	require.NoError(l, err)
	return all
}

// waiting is how many writers the server knows that wait.
func (l *lab) waiting() int64 {
	l.Helper()
	n, err := l.rdb.ZCard(context.Background(), "holdfast_rwlock_writers:{"+l.name+"}").Result()
	require.NoError(l, err)
	return n
}

// listening is how many clients listen for a release.
func (l *lab) listening() int64 {
	l.Helper()
	channel := "redisson_rwlock:{" + l.name + "}"
	n, err := l.rdb.PubSubNumSub(context.Background(), channel).Result()
	require.NoError(l, err)
	return n[channel]
}

// result is what came of an acquisition in a goroutine.
type result struct {
	hold *holdfast.Hold
	err  error
}

func background(ctx context.Context, lock func(context.Context, ...holdfast.Option) (*holdfast.Hold, error),
	opts ...holdfast.Option) <-chan result {
	c := make(chan result, 1)
	go func() {
		h, err := lock(ctx, opts...)
		c <- result{h, err}
	}()
	return c
}

// granted waits for a hold.
func granted(t testing.TB, c <-chan result) *holdfast.Hold {
	t.Helper()
	select {
	case r := <-c:
		require.NoError(t, r.err)
		return r.hold
	case <-time.After(patience):
		require.FailNow(t, "not granted")
		return nil
	}
}

func unlock(t testing.TB, holds ...*holdfast.Hold) {
	t.Helper()
	for _, h := range holds {
		require.NoError(t, h.Unlock(context.Background()))
	}
}

func hold(t testing.TB, h *holdfast.Hold, err error) *holdfast.Hold {
	t.Helper()
	require.NoError(t, err)
	return h
}

func refused(t testing.TB, _ *holdfast.Hold, err error) {
	t.Helper()
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.False(t, errors.Is(err, holdfast.ErrUnavailable), err)
}
