package combine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// startHasty is start for a caller in haste.
func (b *busy) startHasty(ctx context.Context, name string) {
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

// TestWhoIsInHasteLeaves: no caller sends, or the sender gets no answer. A caller in haste leaves
// when its context ends, and the others go on. A command that was not sent is not sent any more.
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
		b.join(fewSendings + 1)
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
		b.join(fewSendings)
		b.eventually(func() bool { return b.exists("hasty") })
		leave()
		require.Equal(t, []string{"hasty"}, b.join(1))
		require.True(t, IsUnanswered(b.err("hasty")))
		require.ErrorIs(t, b.err("hasty"), context.Canceled)
		landed := make(chan struct{})
		WhenLanded(b.err("hasty"), func() { close(landed) })
		select {
		case <-landed:
			require.Fail(t, "nobody knows the answer")
		default:
		}
		close(stop)
		b.join(1)
		<-landed
		again := false
		WhenLanded(b.err("hasty"), func() { again = true })
		require.True(t, again, "at once")
		require.NoError(t, b.err("patient"))
		require.NoError(t, b.Process(t.Context(), command(t.Context(), "ping")))
	})
}

// TestNobodyIsCutShort: the sender is the caller who waits longest for an answer.
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
		b.join(fewSendings + len(row.contexts))
		require.EqualValues(t, 1, b.seen.pipelines.Load(), "they travel together")
		if row.until.IsZero() {
			require.Empty(t, asked)
		} else {
			require.Equal(t, []time.Time{row.until}, asked)
		}
	}
}

// TestTimeoutIsTakenOnce: a hook that sends in place of its client does not pass the timeout to itself.
func TestTimeoutIsTakenOnce(t *testing.T) {
	ctx, d := TakeTimeout(context.WithValue(t.Context(), timeoutKey{}, time.Second))
	require.Equal(t, time.Second, d)
	_, d = TakeTimeout(ctx)
	require.Zero(t, d)
}

// TestWhoWaitsLongerGoesNext: a caller in haste who need not wait for its turn takes no caller along who waits longer.
func TestWhoWaitsLongerGoesNext(t *testing.T) {
	c := New(nil, nil, 1, apart)
	soon, _ := far(t, time.Minute)
	until, _ := soon.Deadline()
	lead := &call{ctx: soon, until: until}
	patient, other := &call{}, &call{until: until.Add(Grace)}
	c.sending, c.waiting = []*call{lead}, []*call{patient, other}
	c.collect(lead)
	require.Equal(t, []*call{other}, lead.others)
	require.Equal(t, []*call{patient}, c.waiting)
}

// TestAHastyErrorIsNoAnswer: the error of a command that its caller has left is not an answer.
func TestAHastyErrorIsNoAnswer(t *testing.T) {
	var reply redis.Error
	err := error(&UnansweredError{cause: context.DeadlineExceeded})
	require.False(t, errors.As(err, &reply) || IsNotSent(err))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// groups makes a combiner for a few connections that waits for all members of a group, and a spy that sees its pipelines.
func groups(t *testing.T) (*Combiner, *spy) {
	seen := &spy{}
	rdb := redistest.Shared(t).Client(t)
	rdb.AddHook(seen)
	c := New(rdb, nil, 10, apart)
	c.patience = time.Hour
	return c, seen
}

// begin has n members send an ECHO each. The first leaving of them send nothing and say so.
func begin(t *testing.T, c *Combiner, join func(context.Context) (context.Context, *Member), n, leaving int) {
	t.Helper()
	var g sync.WaitGroup
	for i := range n {
		ctx, member := join(t.Context())
		g.Go(func() {
			defer member.Done()
			if i < leaving {
				return
			}
			for range 2 { // the second one goes by itself
				cmd := command(ctx, "echo", fmt.Sprint(i))
				if err := c.Process(ctx, cmd); err != nil || cmd.Val() != fmt.Sprint(i) {
					t.Errorf("%d: %v, %v", i, cmd.Val(), err)
				}
			}
		})
	}
	g.Wait()
}

// TestAGroupTravelsTogether: nothing else is under way, and still the first commands of all members
// are one pipeline. The others do not wait for members who have said that they send nothing.
func TestAGroupTravelsTogether(t *testing.T) {
	for _, leaving := range []int{0, 1, 5, 6} {
		c, seen := groups(t)
		sizes := make(chan int, 100)
		seen.after = func(cmds []redis.Cmder) { sizes <- len(cmds) }
		begin(t, c, NewGroup(6).Member, 6, leaving)
		if together := 6 - leaving; together > 1 {
			require.Equal(t, together, <-sizes, "before all that they send later")
		}
		require.True(t, c.isIdle(), "nothing is under way any more")
	}
}

// The control: a member of a group of one waits for no other, and its command is sent alone.
func TestAGroupTravelsTogetherControl(t *testing.T) {
	c, seen := groups(t)
	for range 2 {
		begin(t, c, func(ctx context.Context) (context.Context, *Member) { return NewGroup(1).Member(ctx) }, 1, 0)
	}
	require.Zero(t, seen.pipelines.Load())
}

// TestAGroupWaitsForAMomentOnly: one of the members neither sends a command nor says that it does not.
func TestAGroupWaitsForAMomentOnly(t *testing.T) {
	c, _ := groups(t)
	c.patience = time.Millisecond
	p := NewGroup(4)
	_, missing := p.Member(t.Context())
	begin(t, c, p.Member, 3, 0)
	missing.Done()
}

// TestALargeGroup: commands that do not fit into one pipeline make another.
func TestALargeGroup(t *testing.T) {
	c, _ := groups(t)
	begin(t, c, NewGroup(maxBatch+10).Member, maxBatch+10, 3)
	require.True(t, c.isIdle())
}

// TestAPanicInAGroup: a hook panics in the goroutine that sends for all. The other members get an error.
func TestAPanicInAGroup(t *testing.T) {
	c, seen := groups(t)
	seen.after = func([]redis.Cmder) { panic("hook") }
	p, ended := NewGroup(2), make(chan string, 2)
	for range 2 {
		ctx, member := p.Member(t.Context())
		go func() {
			defer member.Done()
			defer func() {
				if r := recover(); r != nil {
					ended <- fmt.Sprint(r)
				}
			}()
			ended <- fmt.Sprint(c.Process(ctx, command(ctx, "echo", "a")))
		}()
	}
	require.ElementsMatch(t, []string{"hook", errAborted.Error()}, []string{<-ended, <-ended})
	seen.after = nil
	require.NoError(t, c.Process(t.Context(), command(t.Context(), "ping")))
}
