package combine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

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
