package latch_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
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
	return &lab{t, redistest.Shared(t).Client(t), uniqueName(t)}
}

// process is the latch for a client of its own.
func (l *lab) process(opts ...holdfast.Option) *latch.Latch {
	return latch.New(newClient(l.TB, redistest.Shared(l.TB).Client(l.TB), nil), l.name, opts...)
}

func (l *lab) channel() string { return "redisson_countdownlatch__channel__{" + l.name + "}" }

// listening is how many clients listen.
func (l *lab) listening() int64 { return kindtest.Listeners(context.Background(), l.rdb, l.channel()) }

// set sets a latch that is not set.
func set(t testing.TB, l *latch.Latch, count int) {
	ok, err := l.Set(context.Background(), count)
	require.NoError(t, err)
	require.True(t, ok)
}

// count counts down and demands what is left.
func count(t testing.TB, l *latch.Latch, left int) {
	n, err := l.CountDown(context.Background())
	require.NoError(t, err)
	require.Equal(t, left, n)
}

// waiting has somebody wait.
func waiting(ctx context.Context, l *latch.Latch, opts ...holdfast.Option) <-chan error {
	c := make(chan error, 1)
	go func() { c <- l.Wait(ctx, opts...) }()
	return c
}

// open demands that somebody who waited was let in.
func open(t testing.TB, c <-chan error) {
	require.NoError(t, kindtest.Receive(t, "it is let in", c))
}
