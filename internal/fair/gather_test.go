package fair

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

// TestGather: the first question of a waiter for a place is kept back while another of its client
// has a place, and one that its waiter takes back is not sent.
func TestGather(t *testing.T) {
	ls := &waitlists{}
	l := &waitlist{lists: ls}
	question := func(asked, queue bool) *inquiry {
		return &inquiry{place: &waiter{list: l}, queue: queue, joins: queue && !asked}
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	require.False(t, l.gatherLocked(question(false, true)), "nobody has a place")
	l.placed = 1
	require.False(t, l.gatherLocked(question(false, false)), "it asks for the lock")
	require.False(t, l.gatherLocked(question(true, true)), "it asks again")
	first, second := question(false, true), question(false, true)
	require.True(t, l.gatherLocked(first))
	require.True(t, l.gatherLocked(second))
	require.True(t, l.keepsLocked(first))
	require.False(t, l.keepsLocked(first))
	require.Equal(t, []*inquiry{second}, l.gathered)
	require.True(t, l.keepsLocked(second))
	l.togetherLocked() // has nothing to send
}

func TestMain(m *testing.M) { leak.Main(m) }
