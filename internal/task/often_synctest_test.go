package task

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
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
