package remote

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOwnerIn: who has left a lock is named as its holder was, and all others as they stand in
// Redis.
func TestOwnerIn(t *testing.T) {
	const client = "0b4ac1d2-6b8e-4f0e-9d0c-3f5a7b1c2d3e"
	for field, owner := range map[string]string{
		client + ":h07":   client + ":h7",
		client + ":h0170": client + ":h170",
		client + ":h7":    client + ":h7",
		client + ":h70":   client + ":h70",
		client + ":h0":    client + ":h0",
		client + ":07":    client + ":07", // Redisson's
		"h07":             "h7",
		"mode":            "mode",
		"":                "",
	} {
		require.Equal(t, owner, OwnerIn(field), field)
	}
	require.True(t, IsOwner(client+":h07"), "it can be forced out")
}

// TestSomebodyElsesWriter: what waits to write and is no owner is quoted, and cut.
func TestSomebodyElsesWriter(t *testing.T) {
	said := Blocker{Owner: "x; held by\n" + strings.Repeat("me", 1000), Waits: true}.Text(0)
	require.True(t, strings.HasPrefix(said, `"x; held by\nme`), said)
	require.Less(t, len(said), 500)
}

// TestALeaseForEver: a lease of more than 99 years is said to have no end, and how much is left of any
// other one.
func TestALeaseForEver(t *testing.T) {
	for left, said := range map[time.Duration]string{
		Remaining(1 << 60):    "held by me, whose lease has no end",
		century - time.Minute: "held by me, whose lease has no end",
		century - year:        "held by me, whose lease has 867240h0m0s left",
		30 * time.Second:      "held by me, whose lease has 30s left",
		-1 * time.Millisecond: "held by me",
	} {
		require.Equal(t, said, Blocker{Owner: "me", Left: left}.Text(0))
	}
}
