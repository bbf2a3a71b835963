package lua

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// remains is what becomes of a lock that its owner has left for ten seconds when all else that
// carries the owner comes after that.
func remains(t *testing.T, leave *Script) (hash map[string]string, ttl time.Duration, statuses []Status) {
	t.Helper()
	const owner = "u:h7"
	f := newFixture(t)
	f.acquire(owner, "0")
	require.Equal(t, Done, f.run(leave.Call(f.name, f.channel, owner, 10000, "PUBLISH")).Status)
	for _, late := range []Call{
		Acquire.Call(f.name, f.token, owner, 30000, 3600000, "1"),
		FairAcquire.Call(f.name, f.token, "q", "d", f.channel, owner, 30000, 3600000, "1", 0, 1000, "PUBLISH"),
		Renew.Call(f.name, f.token, owner, 30000, 3600000),
		Recount.Call(f.name, owner, 2, 30000),
		Vote.Call(f.name, f.token, owner, 30000, 3600000, 1, "1"),
		Pass.Call(f.name, f.token, f.channel, owner, 30000, 3600000, "PUBLISH", 16),
		Release.Call(f.name, f.channel, owner, "PUBLISH"),
		FairRelease.Call(f.name, f.token, "q", "d", f.channel, owner, "PUBLISH", 1000, 3600000),
	} {
		statuses = append(statuses, f.run(late).Status)
	}
	again := f.run(leave.Call(f.name, f.channel, owner, 20000, "PUBLISH"))
	return f.hash(), f.pttl(f.name), append(statuses, again.Status)
}

// TestLeftBehind: who has left a lock has lost it, whatever of its comes late: nothing lengthens
// the time that is left, or ends it early. That it leaves is all that may be said twice.
func TestLeftBehind(t *testing.T) {
	hash, ttl, statuses := remains(t, Leave)
	require.Equal(t, map[string]string{"u:h07": "1"}, hash)
	require.LessOrEqual(t, ttl, 10*time.Second)
	require.Positive(t, ttl)
	require.Equal(t, []Status{Denied, Denied, Gone, Gone, Denied, Gone, Gone, Gone, Done}, statuses)
}

// The control: under its old name the owner would have it still.
func TestLeftBehindControl(t *testing.T) {
	require.Contains(t, Leave.Text(), "':h0%1'")
	hash, _, statuses := remains(t, New("control", strings.Replace(Leave.Text(), "':h0%1'", "':h%1'", 1), 2))
	require.Empty(t, hash, "released")
	require.Equal(t, []Status{Done, Done, Done, Done, Done, Done}, statuses[:6])
}

// withoutHSet is what stands at the server when a user leaves a lock who has lost the permission
// for HSET.
func withoutHSet(t *testing.T, leave *Script, rules ...any) map[string]string {
	t.Helper()
	f := newFixture(t)
	f.acquire("u:h7", "0")
	require.NoError(t, f.rdb.Do(t.Context(), append([]any{"ACL", "SETUSER", "default", "-hset"}, rules...)...).Err())
	_, err := Run(t.Context(), f.rdb, leave.Call(f.name, f.channel, "u:h7", 10000, "PUBLISH"))
	require.Error(t, err)
	require.LessOrEqual(t, f.pttl(f.name), 10*time.Second)
	return f.hash()
}

// TestLeaveIsPermitted: what is not permitted fails while the lock stands.
func TestLeaveIsPermitted(t *testing.T) {
	stands := map[string]string{"u:h7": "1"}
	require.Equal(t, stands, withoutHSet(t, Leave))
	require.Equal(t, stands, withoutHSet(t, Leave, "-hdel"))
	const first = "call('HSET', name, ARGV[1], '1')"
	require.Contains(t, Leave.Text(), first)
	control := New("control", strings.Replace(Leave.Text(), first, "", 1), 2)
	require.Empty(t, withoutHSet(t, control, "-hdel"),
		"the control: without the first look at that the lock would be free")
}
