package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGhosts: who may be named as the holder, and when.
func TestGhosts(t *testing.T) {
	const (
		mine, other = "uuid:h1", "uuid:h2"
		grant       = "lock uuid:h2#1 @10-20; "
		held        = grant + "unlock uuid:h2#1 @100-110"
		left        = held + "; lock left asked=uuid:h1 @30-40"
		lost        = grant + "end uuid:h2#1 lost @60-60"
		again       = lost + "; reenter uuid:h2#0 lost asked=uuid:h1 @65-75" // its hold ended first
		killed      = grant + "crash @50-51"
	)
	fault, closed := Config{Local: map[int][]Window{0: {{25, 45}}}}, Config{Closed: map[int][]Window{0: {{41, Forever}}}}
	for _, c := range []struct {
		what, ops, owner string
		at               int64
		config           Config
		ghost            bool
	}{
		{"while it asks", held, other, 10, Config{}, false},
		{"while it holds", held, other, 60, Config{}, false},
		{"before it asked", held, other, 9, Config{}, true},
		{"just after", held, other, 120, Config{}, false},
		{"long after", held, other, 121, Config{}, true},
		{"long after a loss", lost, other, 71, Config{}, true},
		{"a call that failed", left, mine, 50, Config{}, false},
		{"long after a call that failed", left, mine, 51, Config{}, true},
		{"another's call", left, "uuid:h3", 35, Config{}, true},
		{"a call of an owner that was not seen", held + "; lock left @30-40", mine, 35, Config{}, false},
		{"a re-entry of what was lost", again, mine, 80, Config{}, false},
		{"long after one", again, mine, 86, Config{}, true},
		{"a client that was never granted anything", "lock left asked=uuid:h1 @30-40", mine, 99, Config{}, false},
		{"recovers from a fault", left, mine, 60, fault, false},
		{"has recovered", left, mine, 61, fault, true},
		{"killed", killed, other, 51 + 2*lease, Config{}, false},
		{"killed long ago", killed, other, 52 + 2*lease, Config{}, true},
		{"closed", left, mine, 200, closed, false},
	} {
		c.config.Lease, c.config.Recovery, c.config.Undo, c.config.Samples = lease, 5, 10, []Sample{{c.at, "a", c.owner}}
		require.Equal(t, c.ghost, len(Ghosts(story(Locks, c.ops), c.config)) > 0, c.what)
	}
}
