package history

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	// keeps are two grants of a client of which the second was of the kept lock.
	keeps  = "lock uuid:k7#1 keep50 @10-20; unlock uuid:k7#1 @30-40; lock uuid:k7#2 keep50 handed @60-61; unlock uuid:k7#2 @70-80"
	queued = "; 1: lock left @90-200" // in another client
)

// TestKept: what was handed on to one who waited is not counted.
func TestKept(t *testing.T) {
	for _, c := range []struct {
		is, was string
		n       int
	}{{"", "", 1}, {"@60-61", "@35-61", 0}, {" handed", "", 0}} {
		require.Equal(t, c.n, Kept(story(Locks, strings.Replace(keeps, c.is, c.was, 1))), c.is)
	}
}

// TestKeptIsNoGhost: a lock stands for nobody for as long as it may be kept, and no longer.
func TestKeptIsNoGhost(t *testing.T) {
	for at, ghosts := range map[int64]int{140: 0, 141: 1} {
		require.Len(t, Ghosts(story(Locks, keeps), Config{Lease: lease, Recovery: 5, Undo: 10, Samples: []Sample{{at, "a", "uuid:k7"}}}), ghosts)
	}
}

// TestKeptAndWaitedFor: who waits calls a kept lock back, but not where a fault meets its client.
func TestKeptAndWaitedFor(t *testing.T) {
	c := Config{Lease: lease, Recovery: 5, Bound: 20}
	require.NotEmpty(t, WakeUps(story(Locks, keeps+queued), c))
	c.Local = map[int][]Window{0: {{100, 110}}}
	require.Empty(t, WakeUps(story(Locks, keeps+queued), c))
}

// TestKeptRefuses: a kept lock is a reason for a refusal, and that its client was killed later does not change that.
func TestKeptRefuses(t *testing.T) {
	for more, wrong := range map[string]int{"try denied @100-101": 0, "try denied @150-151": 1, "try denied @100-101; crash @110-111": 0} {
		require.Len(t, Linearizable(story(Locks, keeps+"; "+more), Config{Lease: lease, Recovery: 5}), wrong, more)
	}
}
