package task

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestWait(t *testing.T) {
	var g Group
	require.NoError(t, g.Wait(t.Context()), "nothing runs")

	stop := make(chan struct{})
	for range 3 {
		g.Go(func() { <-stop })
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, g.Wait(done), "3 background operations still run")
	require.ErrorIs(t, g.Wait(done), context.Canceled)

	close(stop)
	require.NoError(t, g.Wait(t.Context()))
	g.Go(func() {})
	require.NoError(t, g.Wait(t.Context()), "used again after a wait")
}

// The goroutines of tasks that come one after another stay for a moment, and none is left after
// Wait.
func TestOften(t *testing.T) {
	var g Group
	const tasks = 1000
	done := make(chan struct{})
	most := 0
	for range tasks {
		g.Often(func() { done <- struct{}{} })
		<-done
		g.mu.Lock()
		most = max(most, g.n)
		g.mu.Unlock()
	}
	require.Less(t, most, tasks/10, "they are used again")
	require.Eventually(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.n == 0
	}, 10*time.Second, time.Millisecond, "and go home by themselves")
	g.Often(func() {})
	require.NoError(t, g.Wait(t.Context()))
	require.Zero(t, g.n)
	g.Often(func() { close(done) })
	<-done
	require.NoError(t, g.Wait(t.Context()), "nor do they stay later")
}
