package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHeadStart: who is near needs none, who is far away what a round trip needs and half of that,
// and nobody more than others wait. What took long once is no distance.
func TestHeadStart(t *testing.T) {
	g := &grant{base: &Lock{Asker: Asker{Client: &Client{}}}, asked: &request{}}
	way := &g.base.Client.way
	require.Zero(t, g.headStart(), "it is not known yet")
	way.took(50 * time.Millisecond)
	require.Equal(t, 75*time.Millisecond, g.headStart())
	way.took(20 * time.Millisecond)
	require.Equal(t, 30*time.Millisecond, g.headStart())
	way.took(28 * time.Millisecond)
	require.Equal(t, 21*time.Millisecond, way.usual())
	way.took(time.Millisecond)
	require.Zero(t, g.headStart(), "as near as anybody")
	way.took(time.Millisecond + 160*time.Microsecond)
	require.Zero(t, g.headStart())
	for range 100 {
		way.took(time.Second)
	}
	require.Equal(t, maxLetGo, g.headStart())
	g.asked.once = true
	require.Zero(t, g.headStart(), "it does not come again")
}
