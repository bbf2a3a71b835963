package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/remote"
)

// TestNoteKeepsTheLastQuestion: what counts is the answer to the question that was sent last, and not
// the answer that came last.
func TestNoteKeepsTheLastQuestion(t *testing.T) {
	var n Note
	first := time.Now()
	second := first.Add(time.Nanosecond)
	says := func(owner string) remote.Blocker { return remote.Blocker{Left: time.Second, Owner: owner} }
	n.Hear(second, says("new"))
	n.Hear(first, says("old"))
	require.Equal(t, "new", n.Said().Owner)
	n.Free(first)
	require.Equal(t, "new", n.Said().Owner)
	n.Free(second)
	require.Zero(t, n.Said())
	n.Hear(first, says("old"))
	require.Zero(t, n.Said())
}
