package remote

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
)

// inBubble runs what takes time in a bubble, where that is exact and free.
func inBubble(t *testing.T, name string, do func(t *testing.T, p *pulse)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { do(t, &pulse{}) })
	})
}

// TestPulse: a server is taken for prompt after a prompt answer, for a second, and while nothing is
// overdue.
func TestPulse(t *testing.T) {
	inBubble(t, "nothing is known at first", func(t *testing.T, p *pulse) {
		require.False(t, p.prompt())
		p.begin()
		require.False(t, p.prompt())
	})
	inBubble(t, "a prompt answer is good for a second", func(t *testing.T, p *pulse) {
		p.end(p.begin(), nil)
		require.True(t, p.prompt())
		time.Sleep(fresh - time.Nanosecond)
		require.True(t, p.prompt())
		time.Sleep(time.Nanosecond)
		require.False(t, p.prompt())
	})
	inBubble(t, "one that is overdue", func(t *testing.T, p *pulse) {
		p.end(p.begin(), nil)
		b := p.begin()
		time.Sleep(promptly - time.Nanosecond)
		require.True(t, p.prompt())
		time.Sleep(time.Nanosecond)
		require.False(t, p.prompt())
		p.end(p.begin(), nil)
		require.False(t, p.prompt(), "although another one was answered")
		p.end(b, nil)
		require.False(t, p.prompt(), "the last answer was late")
		p.end(p.begin(), nil)
		require.True(t, p.prompt())
	})
	inBubble(t, "no answer", func(t *testing.T, p *pulse) {
		p.end(p.begin(), nil)
		p.end(p.begin(), errors.New("reset"))
		require.False(t, p.prompt())
		p.end(p.begin(), nil)
		time.Sleep(doubtful - time.Nanosecond)
		p.end(p.begin(), nil)
		require.False(t, p.prompt(), "other connections may be dead too")
		time.Sleep(time.Nanosecond)
		require.True(t, p.prompt())
	})
}

// TestPulseKnowsTheOldest: commands end in any order, and what is left is known.
func TestPulseKnowsTheOldest(t *testing.T) {
	inBubble(t, "three", func(t *testing.T, p *pulse) {
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			var under [3]*beat
			for i := range under {
				under[i] = p.begin()
				time.Sleep(time.Nanosecond)
			}
			for n, i := range order {
				p.end(under[i], nil)
				var oldest *beat
				for j, b := range under {
					if oldest == nil && !slices.Contains(order[:n+1], j) {
						oldest = b
					}
				}
				require.Same(t, oldest, p.oldest, "%v, %d ended", order, n+1)
			}
			require.Nil(t, p.newest)
		}
	})
}

// TestClosedBySlowClock: what the server would still execute is not taken for refused, however long
// ago it said what its clock shows: that one may be slower than ours by nearly a per cent.
func TestClosedBySlowClock(t *testing.T) {
	for _, rate := range []float64{0.991, 1, 1.009} {
		for _, silence := range []time.Duration{0, time.Second, time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				server := func(at time.Time) int64 { return int64(float64(at.Sub(start).Microseconds()) * rate) }
				k := Clock{start: start, attempt: transit + usualRead}
				for range 20 { // answers narrow the interval down, more than the rates allow
					sent := time.Now()
					time.Sleep(5 * time.Millisecond)
					micros := server(time.Now())
					time.Sleep(5 * time.Millisecond)
					k.Saw(sent, strconv.FormatInt(micros, 10))
					time.Sleep(200 * time.Millisecond)
				}
				time.Sleep(silence)
				until := k.Limit()
				require.Less(t, until, server(k.closed()), "rate %v, %v later", rate, silence)
			})
		}
	}
}

// lateContext ends a little later than its deadline says, as on a busy machine.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

// TestCommandEndsBeforeItsContext: a command that travels with others has the last deadline of them
// all, and a timer of its own for that. When this one is first, the caller's context is what has
// ended all the same, and no outage is met.
func TestCommandEndsBeforeItsContext(t *testing.T) {
	for _, late := range []bool{true, false} { // the second one is the control: nothing to wait for
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
			defer cancel()
			deadline := time.Now().Add(time.Hour)
			if late {
				deadline = time.Now().Add(time.Millisecond)
			}
			life, end := context.WithCancel(context.Background())
			defer end()
			s := &Session{Life: life, Retry: time.Hour}
			a := NewAttempts(&Server{}, s, Retry{})
			o := a.run(lateContext{ctx, deadline}, RetryNow, func(bool) (call lua.Call) { return call },
				func(context.Context, lua.Call, bool) (lua.Reply, error) {
					time.Sleep(time.Millisecond)
					return lua.Reply{}, context.DeadlineExceeded
				}, nil)
			require.ErrorIs(t, o.Err, context.DeadlineExceeded)
			require.Equal(t, late, ctx.Err() != nil)
		})
	}
}

// TestPulseKnowsOfRefusals: a connection that was refused since the last answer makes a server silent, also where
// whoever wanted it has left. One that was called off, or refused before the server was reached, does not.
func TestPulseKnowsOfRefusals(t *testing.T) {
	refusal := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	// dial lets the opening of a connection take a second, at whose end there is an error, for a caller who waits so long.
	dial := func(p *pulse, patience time.Duration, end error, meanwhile func()) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, _ = dials{[]*pulse{p}}.DialHook(func(context.Context, string, string) (net.Conn, error) {
			time.Sleep(time.Second)
			meanwhile()
			return nil, end
		})(ctx, "tcp", "")
	}
	nothing := func() {}
	silent := func(p *pulse) bool { return p.isSilent(time.Hour) }
	inBubble(t, "since an answer", func(t *testing.T, p *pulse) {
		p.end(p.begin(), nil)
		b := p.begin()
		dial(p, time.Hour, refusal, nothing)
		require.True(t, silent(p))
		p.end(b, context.DeadlineExceeded) // its caller left while go-redis dialled again
		require.True(t, silent(p))
		dial(p, time.Hour, nil, nothing)
		require.True(t, silent(p), "nothing is answered yet")
		p.end(p.begin(), nil)
		require.False(t, silent(p))
	})
	inBubble(t, "called off", func(t *testing.T, p *pulse) {
		p.end(p.begin(), nil)
		dial(p, time.Millisecond, context.DeadlineExceeded, nothing)
		require.False(t, silent(p))
		dial(p, time.Millisecond, errors.New("aborted"), nothing)
		require.False(t, silent(p), "whatever a dialer of the user's calls it")
		dial(p, time.Hour, &net.OpError{Op: "dial", Net: "tcp", Err: context.DeadlineExceeded}, nothing)
		require.False(t, silent(p), "go-redis has a timeout of its own")
		require.Error(t, p.whyUnreached(), "but it is told")
	})
	inBubble(t, "noted late", func(t *testing.T, p *pulse) {
		dial(p, time.Hour, refusal, func() {
			time.Sleep(time.Nanosecond)
			p.end(p.begin(), nil)
		})
		require.False(t, silent(p))
		require.NoError(t, p.whyUnreached())
		p.end(p.begin(), nil)
		dial(p, time.Hour, refusal, func() {
			time.Sleep(time.Nanosecond)
			dial(p, time.Hour, nil, nothing)
		})
		require.False(t, silent(p))
		require.NoError(t, p.whyUnreached())
	})
}
