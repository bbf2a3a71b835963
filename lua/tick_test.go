package lua

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tick stands in front of a script, whose PEXPIRE then deletes the key. So does Redis before 7.2 where the
// time to live is over when it looks at the clock for the second time: if that is one millisecond, about once in
// 15 000 times.
const tick = `
local real = redis
local redis = {pcall = real.pcall, call = function(...)
  local command, key = ...
  if command == 'PEXPIRE' then return real.call('DEL', key) end
  return real.call(...)
end}
`

// TestLeaveAtTheLastMoment: a lock whose time is over in the middle of the script has ended. Control:
// without what looks for that a lock is left that never ends.
func TestLeaveAtTheLastMoment(t *testing.T) {
	f := newFixture(t)
	remains := func(text string) time.Duration {
		f.acquire("u:h7", "0")
		leave := New("leave, at the last moment", tick+text, 2)
		require.Equal(t, Done, f.run(leave.Call(f.name, f.channel, "u:h7", 1, "PUBLISH")).Status)
		return f.pttl(f.name)
	}
	require.Equal(t, time.Duration(-2), remains(Leave.Text()), "there is no such key")
	const looks = "if call('HDEL', name, ARGV[1]) == 0 then call('DEL', name) end"
	require.Contains(t, Leave.Text(), looks)
	require.Equal(t, time.Duration(-1), remains(strings.Replace(Leave.Text(), looks, "call('HDEL', name, ARGV[1])", 1)))
	require.Equal(t, map[string]string{"u:h07": "1"}, f.hash())
}
