package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
)

// TestOwnerIn: who has left a lock is named as its holder was, and all others as they stand in Redis.
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
		require.Equal(t, owner, ownerIn(field), field)
	}
	require.True(t, isOwner(client+":h07"), "it can be forced out")
}

// TestRivalWhoLeaves: an owner who has left a lock at some masters, and not yet at others, is one.
func TestRivalWhoLeaves(t *testing.T) {
	p := &tally{}
	for _, owner := range []string{"a:h07", "a:h7", "b:h7", "a:h07"} {
		p.answers = append(p.answers, answer{reply: lua.NewReply(lua.Denied, 1, owner, "5")})
	}
	list := p.rivals()
	require.Len(t, list, 2)
	require.Equal(t, "a:h7", list[0].owner)
	require.Equal(t, 3, list[0].masters)
	require.Equal(t, 3, p.owned(func(int) bool { return true }))
	require.Equal(t, "held by a:h7", p.answers[0].String())
}
