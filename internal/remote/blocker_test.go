package remote

import (
	"testing"

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
