package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPeriods: who is granted a lock that was to stay taken, and when.
func TestPeriods(t *testing.T) {
	const (
		first  = "lock x#1 lease202 least101 till218 @1-21; "
		short  = "lock x#1 lease10 least101 till26 @1-21; "
		unlock = "unlock x#1 @23-24; "
		lost   = "unlock x#1 unknown @23-24; "
	)
	for _, c := range []struct {
		what, ops string
		config    Config
		bad       bool
	}{
		{"when it is over", first + unlock + "lock y#2 @2-121", Config{}, false},
		{"too early", first + unlock + "lock y#2 @2-120", Config{}, true},
		{"of a short lease", short + unlock + "lock y#2 @2-116", Config{}, false},
		{"or too early", short + unlock + "lock y#2 @2-115", Config{}, true},
		{"while it is held", first + "lock y#2 @2-23", Config{}, true},
		{"not unlocked: by the server", first + lost + "lock y#2 @2-116", Config{}, false},
		{"but not earlier", first + lost + "lock y#2 @2-115", Config{}, true},
		{"not to stay", "lock x#1 lease202 till218 @1-21; " + unlock + "lock y#2 @2-31", Config{}, false},
		{"by a clock that jumped", first + unlock + "lock y#2 @2-116", Config{Jumps: 5}, false},
		{"and not so far", first + unlock + "lock y#2 @2-115", Config{Jumps: 5}, true},
		{"data were lost", first + unlock + "lock y#2 @2-120", Config{Lapses: []Window{{121, 131}}}, false},
		{"but before", first + unlock + "lock y#2 @2-120", Config{Lapses: []Window{{-9, -1}}}, true},
		{"forced out", first + "force @22-23; lock y#2 @2-23", Config{}, false},
	} {
		require.Equal(t, c.bad, len(Periods(story(Locks, c.ops), c.config)) > 0, c.what)
	}
}
