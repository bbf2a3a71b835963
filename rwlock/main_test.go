package rwlock_test

import (
	"context"
	"testing"

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
