package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLeases: what a lease may be, by what was asked for.
func TestLeases(t *testing.T) {
	const (
		grant = "lock a#1 lease100; "
		plain = "lock a#1 lease100 plain; "
		inner = plain + "reenter a#1 lease100; "
		last  = "unlock a#1 plain till1000"
	)
	for _, c := range []struct {
		what, ops string
		bad       bool
	}{
		{"as asked for", grant + "state a#1 seen=a rest100", false},
		{"rounded up to a millisecond", grant + "state a#1 seen=a rest1000000", false},
		{"longer", grant + "state a#1 seen=a rest1000001", true},
		{"another's", grant + "state a#1 seen=b rest9000000", false},
		{"extended", grant + "extend a#1 lease2000000; state a#1 seen=a rest2000000", false},
		{"extended, perhaps", grant + "extend a#1 lease2000000 unknown; state a#1 seen=a rest2000000", false},
		{"entered for longer", grant + "reenter a#1 lease2000000; state a#1 seen=a rest2000000", false},
		{"plain", plain + "unlock a#1 plain till102", false},
		{"plain, and it goes on", plain + "unlock a#1 plain till103", true},
		{"plain, and lost before", plain + "end a#1 lost till", false},
		{"renewed", grant + last, false},
		{"renewed within", inner + last, false},
		{"renewed within, and ended", inner + "leave a#1; unlock a#1 plain till106", false},
		{"it goes on after that", inner + "leave a#1; unlock a#1 plain till107", true},
		{"nobody knows whether it ended", inner + "leave a#1 unknown; " + last, false},
		{"entered without renewal either", plain + "reenter a#1 lease100 plain; " + last, true},
	} {
		require.Equal(t, c.bad, len(Leases(story(Locks, c.ops), Config{})) > 0, c.what)
	}
	claimed := story(Locks, grant+"state a#1 seen=a rest2000000")
	require.NotEmpty(t, Leases(claimed, Config{}))
	require.Empty(t, Leases(claimed, Config{Claim: 2e6}), "a claim")
}

// TestKinds: another kind is refused as long as the name is held.
func TestKinds(t *testing.T) {
	for ops, wrong := range map[string]int{
		"mixed a#1 refused; unlock a#1": 0, "mixed a#1 denied; unlock a#1": 1, "mixed a#1; unlock a#1": 1,
		"end a#1 lost; mixed a#1 left": 0, // not held any more
	} {
		require.Len(t, Forbidden(story(Locks, "lock a#1; "+ops), Config{}), wrong, ops)
	}
}

// TestOvertaken: who is handed the lock came before all who wait in its client.
func TestOvertaken(t *testing.T) {
	const handed, waits = "lock x#1 handed @50-60; ", "lock y#2 @10-100"
	for _, c := range []struct {
		what, ops string
		wrong     int
	}{
		{"waits", waits, 1},
		{"later", "lock y#2 @51-100", 0},
		{"at once", "lock y#2 @45-100", 0},
		{"left before", "lock left @10-60", 0},
		{"another client", "1: " + waits, 0},
		{"does not wait", "try y#2 @10-100", 0},
	} {
		require.Len(t, Overtaken(story(Locks, handed+c.ops), Config{Slack: 5}), c.wrong, c.what)
	}
	for at, wrong := range map[int64]int{8: 1, 9: 0, 60: 0, 61: 1} { // 1 to recover
		c := Config{Slack: 5, Recovery: 1, Local: map[int][]Window{0: {{at, at}}}}
		require.Len(t, Overtaken(story(Locks, handed+waits), c), wrong, at)
	}
}
