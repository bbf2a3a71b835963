package live

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
)

// costing answers as a server does that a command takes so long.
func costing(d time.Duration, sent *int) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		before := time.Now()
		time.Sleep(d)
		cmds[0].(*redis.TimeCmd).SetVal(before)
		cmds[len(cmds)-1].(*redis.TimeCmd).SetVal(time.Now())
		*sent += len(cmds) - 2
		return nil
	}
}

func newTestToll(share float64, burst time.Duration) *toll {
	t := &toll{gate: &gate{}}
	for l := range t.meters {
		t.meters[l] = newMeter(share, burst)
	}
	return t
}

// minute has a lane send commands that cost the server ten milliseconds for a minute, and counts them.
func minute(t *testing.T, share float64, burst time.Duration) (toll *toll, sent int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(in(t.Context(), scanning), time.Minute)
		defer cancel()
		toll = newTestToll(share, burst)
		send := toll.ProcessPipelineHook(costing(10*time.Millisecond, &sent))
		for ctx.Err() == nil {
			_ = send(ctx, scan(ctx))
		}
	})
	return toll, sent
}

func scan(ctx context.Context) []redis.Cmder {
	return []redis.Cmder{redis.NewScanCmd(ctx, nil, "scan", 0)}
}

// TestShare: in a minute as many commands of ten milliseconds are sent as the share allows, with what is saved up, and one.
func TestShare(t *testing.T) {
	for what, c := range map[string]struct {
		share       float64
		burst       time.Duration
		least, most int
	}{
		"a share":          {0.005, 0, 29, 31},
		"what is saved up": {0.005, 100 * time.Millisecond, 39, 42},
		"a smaller share":  {0.001, 0, 5, 7},
	} {
		t.Run(what, func(t *testing.T) {
			toll, sent := minute(t, c.share, c.burst)
			require.GreaterOrEqual(t, sent, c.least)
			require.LessOrEqual(t, sent, c.most)
			require.Equal(t, time.Duration(sent)*10*time.Millisecond, time.Duration(toll.spent.Load()))
			require.EqualValues(t, sent, toll.scans.Load())
		})
	}
}

// TestSavedUp: who was silent for long may send at once what a burst allows, and no more than that.
func TestSavedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toll, sent := newTestToll(0.01, 10*time.Millisecond), 0
		send := toll.ProcessPipelineHook(costing(time.Millisecond, &sent))
		time.Sleep(time.Hour)
		ctx, cancel := context.WithTimeout(in(t.Context(), looking), 50*time.Millisecond)
		defer cancel()
		for ctx.Err() == nil {
			_ = send(ctx, scan(ctx))
		}
		require.Equal(t, 11, sent, "what was saved up, and one")
	})
}

// TestLanesAreApart: a lane without credit holds up no other lane and nothing that a user waits for; the looks pay for that.
func TestLanesAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toll, sent := newTestToll(0.01, time.Millisecond), 0
		send := toll.ProcessPipelineHook(costing(time.Second, &sent))
		at := func(l lane) time.Duration {
			begin := time.Now()
			require.NoError(t, send(in(t.Context(), l), scan(t.Context())))
			return time.Since(begin).Round(time.Second)
		}
		require.Equal(t, time.Second, at(scanning))
		require.Equal(t, time.Second, at(hearing))
		require.Equal(t, time.Second, at(prompt))
		require.Equal(t, time.Second, at(prompt))
		require.Equal(t, 200*time.Second, at(looking), "199 s until what the two before have cost is paid")
		require.Greater(t, at(scanning), 100*time.Second, "a pass has what the others leave")
		passed := false
		free := toll.ProcessPipelineHook(func(context.Context, []redis.Cmder) error { passed = true; return nil })
		require.NoError(t, free(t.Context(), scan(t.Context())))
		require.True(t, passed)
	})
}

// TestPause: while the gate is shut a lane sends nothing, and the one that a user looks through does.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toll, sent := newTestToll(1, time.Hour), 0
		send := toll.ProcessPipelineHook(costing(0, &sent))
		toll.gate.set(true)
		toll.gate.set(true)
		done := make(chan error)
		go func() { done <- send(in(t.Context(), scanning), scan(t.Context())) }()
		require.NoError(t, send(in(t.Context(), looking), scan(t.Context())))
		synctest.Wait()
		require.Equal(t, 1, sent)
		toll.gate.set(false)
		toll.gate.set(false)
		require.NoError(t, <-done)
		require.Equal(t, 2, sent)
		toll.gate.set(true)
		ctx, cancel := context.WithCancel(in(t.Context(), scanning))
		cancel()
		require.ErrorIs(t, send(ctx, scan(ctx)), context.Canceled)
		require.Equal(t, 2, sent)
	})
}

// TestShareControl: without the wait the server works for nobody else.
func TestShareControl(t *testing.T) {
	defer defence.Share.Without(t)()
	_, sent := minute(t, 0.005, 0)
	require.Greater(t, sent, 5000)
}
