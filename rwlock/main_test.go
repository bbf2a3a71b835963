package rwlock_test

import (
	"context"
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
	lock, take, unlock = kindtest.Lock, kindtest.Take, kindtest.Unlock
	begin, refused     = kindtest.Begin, kindtest.Refused

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
	return &lab{t, redistest.Shared(t).Client(t), uniqueName(t)}
}

// process is the lock for a client of its own.
func (l *lab) process(opts *holdfast.Options) *rwlock.RWMutex {
	return rwlock.New(newClient(l.TB, redistest.Shared(l.TB).Client(l.TB), opts), l.name)
}

func (l *lab) fields() map[string]string {
	all, err := l.rdb.HGetAll(context.Background(), l.name).Result()
	require.NoError(l, err)
	return all
}

// waiting is how many writers the server knows that wait.
func (l *lab) waiting() int64 {
	n, err := l.rdb.ZCard(context.Background(), "holdfast_rwlock_writers:{"+l.name+"}").Result()
	require.NoError(l, err)
	return n
}

// listening is how many clients listen for a release.
func (l *lab) listening() int64 {
	return kindtest.Listeners(context.Background(), l.rdb, "redisson_rwlock:{"+l.name+"}")
}

// TestKind: what every kind of lock promises. A read-write lock is one by its side to write.
func TestKind(t *testing.T) {
	kindtest.Run(t, kindtest.Kind{Name: "rwlock", Lease: 2 * time.Second}.On(t, kindtest.Servers{
		All: []*redistest.Server{redistest.Start(t)},
		New: func(c []*holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
			return rwlock.New(c[0], name, opts...)
		},
		State: func(ctx context.Context, c []*holdfast.Client, name string) (holdfast.State, error) {
			s, err := rwlock.New(c[0], name).State(ctx)
			state := holdfast.State{Token: s.Token, Waiters: s.Waiters}
			for _, h := range s.Holders {
				state.Owner, state.Count, state.Remaining = h.Owner, h.Count, h.Remaining
			}
			return state, err
		},
		Force: func(ctx context.Context, c []*holdfast.Client, name string) (bool, error) {
			return rwlock.New(c[0], name).ForceUnlock(ctx)
		},
		Waiters: func(ctx context.Context, rdb *redis.Client, name string) int64 {
			// The first attempt brings a place. Who listens has had the answer.
			return min(rdb.ZCard(ctx, "holdfast_rwlock_writers:{"+name+"}").Val(),
				kindtest.Listeners(ctx, rdb, "redisson_rwlock:{"+name+"}"))
		},
		Places: func(ctx context.Context, rdb *redis.Client, name string) int64 {
			return rdb.ZCard(ctx, "holdfast_rwlock_writers:{"+name+"}").Val()
		},
		Fields: []any{"mode", "write", kindtest.Stranger + ":47:write", 1},
	}))
}
