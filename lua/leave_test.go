package lua

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLeave: every reply, and that it never lengthens nor takes what is another's.
func TestLeave(t *testing.T) {
	f := newFixture(t)
	leave := func(owner string, rest int) Reply {
		return f.run(Leave.Call(f.name, f.channel, owner, rest, "PUBLISH"))
	}
	sub := f.rdb.Subscribe(t.Context(), f.channel)
	defer sub.Close()
	_, err := sub.Receive(t.Context())
	require.NoError(t, err)

	require.Equal(t, Gone, leave("a", 1000).Status)
	require.Empty(t, f.hash(), "it never makes the key")
	f.acquire("a", "0")
	require.Equal(t, Gone, leave("b", 1000).Status)
	require.Greater(t, f.pttl(f.name), 20*time.Second, "another's")

	for range 2 { // as often as one likes
		require.Equal(t, Done, leave("a", 10000).Status)
		require.LessOrEqual(t, f.pttl(f.name), 10*time.Second)
		require.Equal(t, map[string]string{"a": "1"}, f.hash())
	}
	require.Equal(t, "0", (<-sub.Channel()).Payload, "waiters are told of the earlier end")
	require.Equal(t, Done, leave("a", 60000).Status)
	require.LessOrEqual(t, f.pttl(f.name), 10*time.Second, "a late one does not lengthen")

	require.NoError(t, f.rdb.Persist(t.Context(), f.name).Err())
	require.Equal(t, Done, leave("a", 10000).Status)
	require.Positive(t, f.pttl(f.name), "what has no end gets one")

	require.NoError(t, f.rdb.Persist(t.Context(), f.name).Err())
	refused := f.run(Leave.Call(f.name, f.channel, "a", 10000, "GET"))
	require.Equal(t, Done, refused.Status)
	require.NotEmpty(t, refused.Text(0), "told why nobody was")
	require.Positive(t, f.pttl(f.name))
	spublish := f.run(Leave.Call(f.name, f.channel, "a", 5000, "SPUBLISH")) // refused by this server, or not known before 7
	require.Equal(t, Done, spublish.Status)
	_, err = Run(t.Context(), f.rdb, Leave.Call(f.token, f.channel, "a", 5000, "PUBLISH"))
	require.True(t, IsError(err, "WRONGTYPE"), err)
}
