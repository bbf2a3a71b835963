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

// companions makes a combiner for a few connections, and what sees its pipelines. Nobody leaves a
// company that is waited for, however slow the machine.
func companions(t *testing.T) (*Combiner, *spy) {
	seen := &spy{}
	rdb := redistest.Shared(t).Client(t)
	rdb.AddHook(seen)
	c := New(rdb, nil, 10, apart)
	c.patience = time.Hour
	return c, seen
}

// begin has guests send an ECHO each, and those who are said to leave do so.
func begin(t *testing.T, c *Combiner, invite func(context.Context) (context.Context, *Guest), n, leaving int) {
	t.Helper()
	var g sync.WaitGroup
	for i := range n {
		ctx, guest := invite(t.Context())
		g.Go(func() {
			defer guest.Leave()
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

// TestACompanyTravelsTogether: nothing else is under way, and yet the first commands of all are one
// pipeline. Those who send nothing are not waited for once they have said so.
func TestACompanyTravelsTogether(t *testing.T) {
	for _, leaving := range []int{0, 1, 5, 6} {
		c, seen := companions(t)
		sizes := make(chan int, 100)
		seen.after = func(cmds []redis.Cmder) { sizes <- len(cmds) }
		begin(t, c, NewCompany(6).Guest, 6, leaving)
		if together := 6 - leaving; together > 1 {
			require.Equal(t, together, <-sizes, "before all that they send later")
		}
		require.True(t, c.IsReady(), "nothing is under way any more")
	}
}

// The control: who has a company of his own waits for nobody, and goes alone.
func TestACompanyTravelsTogetherControl(t *testing.T) {
	c, seen := companions(t)
	for range 2 {
		begin(t, c, func(ctx context.Context) (context.Context, *Guest) { return NewCompany(1).Guest(ctx) }, 1, 0)
	}
	require.Zero(t, seen.pipelines.Load())
}

// TestACompanyWaitsForAMomentOnly: one of the guests neither comes nor leaves.
func TestACompanyWaitsForAMomentOnly(t *testing.T) {
	c, _ := companions(t)
	c.patience = time.Millisecond
	p := NewCompany(4)
	_, missing := p.Guest(t.Context())
	begin(t, c, p.Guest, 3, 0)
	missing.Leave()
}

// TestALargeCompany: what does not fit into one journey makes another.
func TestALargeCompany(t *testing.T) {
	c, _ := companions(t)
	begin(t, c, NewCompany(maxBatch+10).Guest, maxBatch+10, 3)
	require.True(t, c.IsReady())
}

// TestAPanicInACompany: a hook panics in the goroutine that sends for all. The others get an error.
func TestAPanicInACompany(t *testing.T) {
	c, seen := companions(t)
	seen.after = func([]redis.Cmder) { panic("hook") }
	p, ended := NewCompany(2), make(chan string, 2)
	for range 2 {
		ctx, guest := p.Guest(t.Context())
		go func() {
			defer guest.Leave()
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
