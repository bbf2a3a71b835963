package integration_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// pendingRows say what scripts ought to do and do not do yet. One that the scripts have come to obey belongs in the table
// of its script.
var pendingRows = []row{
	{
		// The token's key holds what Lua reads as a number and no comparison refuses; "nan" is then granted as a token.
		name: "token that is not a number by name", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "SET TOKEN nan PX 20000",
		reply:  "!HOLDFAST", same: true,
	},
	{
		// As text it is smaller than the clock, so that nothing looks at it: whatever the key was for is overwritten.
		name: "token that is text of a token's length", script: lua.Acquire, args: "a 30000 3600000 0",
		before: "SET TOKEN 000000000000text PX 20000",
		reply:  "!HOLDFAST", same: true,
	},
	{
		// The token was evicted between an attempt and its repetition: 0 is no token greater than every one before.
		name: "the owner's own without a token, repeated call", script: lua.Acquire, args: "a 30000 3600000 1",
		before: "HSET LOCK a 1; PEXPIRE LOCK 10000",
		reply:  "1 clock", hash: "a=1", lease: 30000, token: "clock", keep: 3600000,
	},
	{
		// A renewal that is late and shorter does not shorten the lease, but what is left to the token.
		name: "a token that is kept for longer", script: lua.Renew, args: "a 1000 3600000",
		before: "HSET LOCK a 1; PEXPIRE LOCK 7200000; SET TOKEN 5000 PX 14400000",
		reply:  "1", hash: "a=1", lease: 7200000, token: "5000", keep: 14400000,
	},
}

// TestPendingRows fails as soon as a row of pendingRows holds.
func TestPendingRows(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		rdb := redistest.Start(t, redistest.Exec(p.Path)).Client(t)
		for _, r := range pendingRows {
			require.Error(t, r.check(t.Context(), rdb, r.script, lua.Run), "%s: move it into the table of %s", r.name,
				r.script.Name())
		}
	})
}
