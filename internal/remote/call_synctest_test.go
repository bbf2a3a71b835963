package remote

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
)

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
			o := s.persist(lateContext{ctx, deadline}, &Server{}, func(bool) (call lua.Call) { return call }, nil,
				func(context.Context, lua.Call, bool) (lua.Reply, error) {
					time.Sleep(time.Millisecond)
					return lua.Reply{}, context.DeadlineExceeded
				})
			require.ErrorIs(t, o.Err, context.DeadlineExceeded)
			require.Equal(t, late, ctx.Err() != nil)
		})
	}
}
