package remote

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestClasses: a timeout is no shorter than what is asked for, longer by an eighth at most, and there
// are few of them, each with a number of its own.
func TestClasses(t *testing.T) {
	known := map[int]time.Duration{}
	for d := least; d < 10*time.Second; d += 100 * time.Microsecond {
		rounded, at := class(d)
		require.GreaterOrEqual(t, rounded, d)
		require.LessOrEqual(t, rounded, d+d/8+time.Millisecond)
		if before, is := known[at]; is {
			require.Equal(t, before, rounded)
		}
		known[at] = rounded
	}
	require.Less(t, len(known), 70)
	_, at := class(1<<63 - 1)
	require.Less(t, at, len(timeouts{}.of8))
}

// counter is a hook that counts.
type counter struct{ commands, pipelines int }

func (*counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.commands++
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.pipelines++
		return next(ctx, cmds)
	}
}

// hurried is a command in haste.
type hurried struct {
	*redis.Cmd
	timeout time.Duration
}

func (h *hurried) SetTimeout(d time.Duration) { h.timeout = d }

func (h *hurried) TakeTimeout() (d time.Duration) {
	d, h.timeout = h.timeout, 0
	return d
}

// TestTimeoutsCallHooks: the hooks of the user's client see each command once, whenever they were added,
// and also if several share the client. The clients with timeouts have none; a go-redis that gives them
// some would call the user's twice.
func TestTimeoutsCallHooks(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	before, between, after := &counter{}, &counter{}, &counter{}
	rdb.AddHook(before)
	one := newTimeouts(rdb)
	rdb.AddHook(between)
	two := newTimeouts(rdb)
	require.NoError(t, rdb.Ping(t.Context()).Err()) // there is a connection
	for i, hooks := range [][]*counter{{before, between}, {before, between, after}} {
		if i > 0 {
			rdb.AddHook(after)
		}
		for _, ts := range []*timeouts{one, two} {
			for _, hook := range hooks {
				*hook = counter{}
			}
			d := ts.left(time.Now().Add(time.Second))
			cmd := &hurried{redis.NewCmd(t.Context(), "ping"), d}
			require.NoError(t, rdb.Process(t.Context(), cmd))
			require.Equal(t, i == 0, cmd.timeout == 0, "taken, where no hook stands behind all of ours")
			require.NoError(t, rdb.Ping(t.Context()).Err())
			for _, hook := range hooks {
				require.Equal(t, counter{commands: 2}, *hook)
			}
		}
	}
	require.NotNil(t, two.client(time.Second))
}

// TestTimeouts: who may wait as long as the user's own client does needs no other one.
func TestTimeouts(t *testing.T) {
	for _, usual := range []time.Duration{5 * time.Second, -1} {
		rdb := redis.NewClient(&redis.Options{ReadTimeout: usual})
		ts := newTimeouts(rdb)
		require.Equal(t, 104*time.Millisecond, ts.left(time.Now().Add(-time.Hour)))
		require.Equal(t, usual > 0, ts.left(time.Now().Add(time.Minute)) == 0)
		c := ts.client(640 * time.Millisecond)
		require.Equal(t, 640*time.Millisecond, c.Options().ReadTimeout)
		require.Same(t, c, ts.client(640*time.Millisecond))
		require.NoError(t, rdb.Close())
	}
}
