package task

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

// TestOften: the goroutine of tasks that come one after another stays for a moment, and none is left after Wait.
func TestOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		running := func() int {
			synctest.Wait()
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.n
		}
		done := make(chan struct{})
		for range 1000 {
			g.Often(func() { done <- struct{}{} })
			<-done
			require.Equal(t, 1, running(), "it is used again")
		}
		time.Sleep(linger)
		require.Zero(t, running(), "and goes home by itself")
		g.Often(func() {})
		require.NoError(t, g.Wait(t.Context()))
		require.Zero(t, running())
		g.Often(func() { close(done) })
		<-done
		require.NoError(t, g.Wait(t.Context()), "nor does it stay later")
	})
}

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
	require.ErrorContains(t, g.Wait(done), "background operations still run, 3 of them")
	require.ErrorIs(t, g.Wait(done), context.Canceled)
	close(stop)
	require.NoError(t, g.Wait(t.Context()))
	g.Go(func() {})
	require.NoError(t, g.Wait(t.Context()), "used again after a wait")
}
