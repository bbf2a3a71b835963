package combine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// startHasty is start for a caller in haste.
func (b *busy) startHasty(ctx context.Context, name string) {
	b.t.Helper()
	before := b.gathered()
	cmd := command(ctx, "set", name, "1")
	go func() {
		err := Hasty{b.Combiner}.Process(ctx, cmd)
		b.errs.Store(name, err)
		b.ended <- name
	}()
	b.eventually(func() bool { return b.gathered() == before+1 })
}

// far is a context whose deadline is far off.
func far(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx, cancel
}

// TestWhoIsInHasteLeaves: nobody sends, or the one who sends has no answer. Who is in haste leaves when
// its context ends, and the others go on. What was not sent is not sent any more.
func TestWhoIsInHasteLeaves(t *testing.T) {
	t.Run("before it is sent", func(t *testing.T) {
		b := newBusy(t, time.Hour)
		ctx, leave := far(t, time.Hour)
		b.gather(t.Context(), "patient")
		b.startHasty(ctx, "hasty")
		leave()
		require.Equal(t, []string{"hasty"}, b.join(1))
		require.True(t, IsNotSent(b.err("hasty")))
		require.ErrorIs(t, b.err("hasty"), context.Canceled)
		b.release()
		b.join(fewFlights + 1)
		require.NoError(t, b.err("patient"))
		require.False(t, b.exists("hasty"))
	})
	t.Run("while another one sends it", func(t *testing.T) {
		b := newBusy(t, time.Hour)
		stop := make(chan struct{})
		b.seen.after = func([]redis.Cmder) { <-stop } // it has run, and nobody knows yet
		ctx, leave := far(t, time.Hour)
		b.gather(t.Context(), "patient")
		b.startHasty(ctx, "hasty")
		b.release()
		b.join(fewFlights)
		b.eventually(func() bool { return b.exists("hasty") })
		leave()
		require.Equal(t, []string{"hasty"}, b.join(1))
		require.True(t, IsUnanswered(b.err("hasty")))
		require.ErrorIs(t, b.err("hasty"), context.Canceled)
		close(stop)
		b.join(1)
		require.NoError(t, b.err("patient"))
		require.NoError(t, b.Process(t.Context(), command(t.Context(), "ping")))
	})
}

// TestNobodyIsCutShort: the one who sends is the one who waits longest for an answer.
func TestNobodyIsCutShort(t *testing.T) {
	soon, _ := far(t, time.Minute)
	late, _ := far(t, time.Hour)
	lateUntil, _ := late.Deadline()
	for _, row := range []struct {
		contexts []context.Context
		until    time.Time // for which the sender has asked; zero: it waits as go-redis does
	}{
		{[]context.Context{soon, t.Context(), late}, time.Time{}},
		{[]context.Context{soon, late, soon}, lateUntil},
		{[]context.Context{late, soon}, lateUntil},
	} {
		b := newBusy(t, time.Hour)
		var asked []time.Time
		b.timeout = func(until time.Time) time.Duration {
			asked = append(asked, until)
			return time.Hour
		}
		for i, ctx := range row.contexts {
			if name := string(rune('a' + i)); ctx == t.Context() {
				b.gather(ctx, name)
			} else {
				b.startHasty(ctx, name)
			}
		}
		b.release()
		b.join(fewFlights + len(row.contexts))
		require.EqualValues(t, 1, b.seen.pipelines.Load(), "they travel together")
		if row.until.IsZero() {
			require.Empty(t, asked)
		} else {
			require.Equal(t, []time.Time{row.until}, asked)
		}
	}
}

// TestTimeoutIsTakenOnce: whoever sends in place of another does not pass it on to itself.
func TestTimeoutIsTakenOnce(t *testing.T) {
	ctx, d := TakeTimeout(context.WithValue(t.Context(), timeoutKey{}, time.Second))
	require.Equal(t, time.Second, d)
	_, d = TakeTimeout(ctx)
	require.Zero(t, d)
}

// TestWhoWaitsLongerGoesNext: one in haste who need not wait for its turn takes nobody along who waits
// longer.
func TestWhoWaitsLongerGoesNext(t *testing.T) {
	c := New(nil, nil, 1, apart)
	soon, _ := far(t, time.Minute)
	until, _ := soon.Deadline()
	lead := &seat{ctx: soon, until: until}
	patient, other := &seat{}, &seat{until: until.Add(Grace)}
	c.flights, c.waiting = []*seat{lead}, []*seat{patient, other}
	c.board(lead)
	require.Equal(t, []*seat{other}, lead.others)
	require.Equal(t, []*seat{patient}, c.waiting)
}

// TestAHastyErrorIsNoAnswer: what is told of a command that was left.
func TestAHastyErrorIsNoAnswer(t *testing.T) {
	var reply redis.Error
	err := error(&UnansweredError{context.DeadlineExceeded})
	require.False(t, errors.As(err, &reply) || IsNotSent(err))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
