package task

import (
	"context"
	"testing"

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
