package remote

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
)

// inBubble runs a test in a bubble, where time is exact and costs nothing.
func inBubble(t *testing.T, name string, do func(t *testing.T, l *latency)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { do(t, &latency{}) })
	})
}

// TestLatency: a server counts as prompt for a second after a prompt answer, while no command is overdue.
func TestLatency(t *testing.T) {
	inBubble(t, "nothing is known at first", func(t *testing.T, l *latency) {
		require.False(t, l.isPrompt())
		l.begin()
		require.False(t, l.isPrompt())
	})
	inBubble(t, "a prompt answer is good for a second", func(t *testing.T, l *latency) {
		l.end(l.begin(), nil)
		require.True(t, l.isPrompt())
		time.Sleep(fresh - time.Nanosecond)
		require.True(t, l.isPrompt())
		time.Sleep(time.Nanosecond)
		require.False(t, l.isPrompt())
	})
	inBubble(t, "one that is overdue", func(t *testing.T, l *latency) {
		l.end(l.begin(), nil)
		b := l.begin()
		time.Sleep(promptly - time.Nanosecond)
		require.True(t, l.isPrompt())
		time.Sleep(time.Nanosecond)
		require.False(t, l.isPrompt())
		l.end(l.begin(), nil)
		require.False(t, l.isPrompt(), "although another one was answered")
		l.end(b, nil)
		require.False(t, l.isPrompt(), "the last answer was late")
		l.end(l.begin(), nil)
		require.True(t, l.isPrompt())
	})
	inBubble(t, "no answer", func(t *testing.T, l *latency) {
		l.end(l.begin(), nil)
		l.end(l.begin(), errors.New("reset"))
		require.False(t, l.isPrompt())
		l.end(l.begin(), nil)
		time.Sleep(doubtful - time.Nanosecond)
		l.end(l.begin(), nil)
		require.False(t, l.isPrompt(), "other connections may be dead too")
		time.Sleep(time.Nanosecond)
		require.True(t, l.isPrompt())
	})
}

// TestLatencyKnowsTheOldest: commands end in any order, and the oldest of the rest is known.
func TestLatencyKnowsTheOldest(t *testing.T) {
	inBubble(t, "three", func(t *testing.T, l *latency) {
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			var under [3]*inflight
			for i := range under {
				under[i] = l.begin()
				time.Sleep(time.Nanosecond)
			}
			for n, i := range order {
				l.end(under[i], nil)
				var oldest *inflight
				for j, b := range under {
					if oldest == nil && !slices.Contains(order[:n+1], j) {
						oldest = b
					}
				}
				require.Same(t, oldest, l.oldest, "%v, %d ended", order, n+1)
			}
			require.Nil(t, l.newest)
		}
	})
}

// TestClosedBySlowClock: a request that the server would still execute is not believed to be refused, however long ago the
// server told its clock. That clock may be slower than ours by nearly a per cent.
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

// TestCommandEndsBeforeItsContext: a command that travels with others has the last deadline of them all, and a timer of its own
// for that. If this timer is first, the cause is still the end of the caller's context, and not an outage.
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

// TestLatencyKnowsOfRefusals: a connection that was refused since the last answer makes a server silent, also if the caller who
// wanted the connection has left. A connection that was called off, or refused before the server was reached, does not.
func TestLatencyKnowsOfRefusals(t *testing.T) {
	refusal := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	// dial lets the opening of a connection take a second, at whose end there is an error, for a caller who waits so long.
	dial := func(l *latency, patience time.Duration, end error, meanwhile func()) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, _ = dialHook{[]*latency{l}}.DialHook(func(context.Context, string, string) (net.Conn, error) {
			time.Sleep(time.Second)
			meanwhile()
			return nil, end
		})(ctx, "tcp", "")
	}
	nothing := func() {}
	silent := func(l *latency) bool { return l.isSilent(Patience{time.Hour, time.Hour}) }
	inBubble(t, "since an answer", func(t *testing.T, l *latency) {
		l.end(l.begin(), nil)
		b := l.begin()
		dial(l, time.Hour, refusal, nothing)
		require.True(t, silent(l))
		l.end(b, context.DeadlineExceeded) // its caller left while go-redis dialled again
		require.True(t, silent(l))
		dial(l, time.Hour, nil, nothing)
		require.True(t, silent(l), "nothing is answered yet")
		l.end(l.begin(), nil)
		require.False(t, silent(l))
	})
	inBubble(t, "called off", func(t *testing.T, l *latency) {
		l.end(l.begin(), nil)
		dial(l, time.Millisecond, context.DeadlineExceeded, nothing)
		require.False(t, silent(l))
		dial(l, time.Millisecond, errors.New("aborted"), nothing)
		require.False(t, silent(l), "whatever a dialer of the user's calls it")
		dial(l, time.Hour, &net.OpError{Op: "dial", Net: "tcp", Err: context.DeadlineExceeded}, nothing)
		require.False(t, silent(l), "go-redis has a timeout of its own")
		require.Error(t, l.whyUnreached(), "but it is told")
	})
	inBubble(t, "noted late", func(t *testing.T, l *latency) {
		dial(l, time.Hour, refusal, func() {
			time.Sleep(time.Nanosecond)
			l.end(l.begin(), nil)
		})
		require.False(t, silent(l))
		require.NoError(t, l.whyUnreached())
		l.end(l.begin(), nil)
		dial(l, time.Hour, refusal, func() {
			time.Sleep(time.Nanosecond)
			dial(l, time.Hour, nil, nothing)
		})
		require.False(t, silent(l))
		require.NoError(t, l.whyUnreached())
	})
}

// TestNewServerIsNotSilentAtOnce: where callers are late, a server that has never answered is silent when it was asked for long enough,
// as any other. Where they are not, it is silent.
func TestNewServerIsNotSilentAtOnce(t *testing.T) {
	inBubble(t, "asked", func(t *testing.T, l *latency) {
		require.True(t, l.isSilent(Patience{Known: time.Hour}))
		require.False(t, l.isSilent(Patience{time.Hour, 1}), "nobody has asked it")
		c := l.begin()
		time.Sleep(400 * time.Millisecond)
		require.False(t, l.isSilent(Patience{time.Hour, time.Second}), "its callers may have left before the first answer")
		time.Sleep(100 * time.Millisecond)
		require.True(t, l.isSilent(Patience{time.Hour, time.Second}))
		l.timeOut(c)
		require.True(t, l.isSilent(Patience{time.Hour, time.Second}))
		require.False(t, l.isSilent(Patience{time.Hour, time.Minute}))
	})
}

// TestLateIsAnAnswer: a server that refuses a request because it came late has answered.
func TestLateIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Session{Life: t.Context(), Retry: time.Hour}
		a, failed := NewAttempts(&Server{}, s, Retry{}), atomic.Pointer[error]{}
		cut := errors.New("cut")
		a.Decide(t.Context(), lua.Reply{}, cut, &failed)
		require.ErrorIs(t, *failed.Load(), cut, "control")
		late := lua.NewReply(lua.Late, "1000000000000000")
		for _, want := range []Decision{RetryNow, RetryLater} {
			require.Equal(t, want, a.Decide(t.Context(), late, nil, &failed))
			require.ErrorIs(t, a.Err, ErrLate)
			require.Nil(t, failed.Load())
		}
	})
}

// TestLimit: it ends in time for all who wait and says that the budget is spent, unless a parent that can end does so first.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parents := map[string]func() (context.Context, context.CancelFunc){
			"endless":     func() (context.Context, context.CancelFunc) { return context.Background(), func() {} },
			"cancellable": func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) },
			"later": func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(t.Context(), 2*time.Second)
			},
		}
		for name, parent := range parents {
			ctx, cancel := parent()
			l := &limit{Context: ctx, end: time.Now().Add(time.Second)}
			select {
			case <-l.Done(): // a look, which costs nothing
				t.Fatal(name)
			default:
			}
			require.Nil(t, l.timed, name)
			require.NoError(t, l.Err(), name)
			require.False(t, isSpent(l), name)
			begun := time.Now()
			<-l.Done()
			require.Equal(t, time.Second, time.Since(begun), name)
			require.ErrorIs(t, l.Err(), context.DeadlineExceeded, name)
			require.True(t, isSpent(l), name)
			l.stop()
			cancel()
		}

		// A context that a hook derives ends with it, too.
		l := &limit{Context: context.Background(), end: time.Now().Add(time.Second)}
		derived, cancel := context.WithTimeout(l, time.Hour)
		begun := time.Now()
		<-derived.Done()
		require.Equal(t, time.Second, time.Since(begun))
		cancel()
		l.stop()

		// Who waits at the first look, as a hook may, is let go with the operation, and so is who comes later.
		l = &limit{Context: context.Background(), end: time.Now().Add(time.Hour)}
		first := l.Done()
		l.stop()
		<-first
		<-l.Done()
		require.ErrorIs(t, l.Err(), context.Canceled)

		// The parent ends first.
		cancelled, stop := context.WithCancel(t.Context())
		defer stop()
		sooner, done := context.WithTimeout(t.Context(), time.Millisecond)
		defer done()
		for _, ctx := range []context.Context{cancelled, sooner} {
			l := &limit{Context: ctx, end: time.Now().Add(time.Second)}
			time.AfterFunc(time.Millisecond, stop)
			<-l.Done()
			require.Equal(t, ctx.Err(), l.Err())
			require.False(t, isSpent(l))
			<-l.Done()
			time.Sleep(time.Hour)
			require.False(t, isSpent(l))
			l.stop()
		}
	})
}
