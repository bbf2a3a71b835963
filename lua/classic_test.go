package lua

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClassic: told that channels are classic ones in a cluster, a script announces by PUBLISH and
// does not take it that nobody listens because nobody does so at its server. The control is the same
// server asked as the only one, whose count is believed.
func TestClassic(t *testing.T) {
	for _, row := range []struct {
		name    string
		prepare []Call
		run     func(publish string) Call
		told    string // channel
		text    string
		control string // what is not announced when the count is believed, or by whom it is missed
	}{
		{"pass", []Call{Acquire.Call("x", "{x}:t", "a:h1", 30000, 3600000, "0")},
			func(publish string) Call {
				return Pass.Call("x", "{x}:t", "{x}:c", "a:h1", 30000, 3600000, publish, 16)
			}, "{x}:c", "0",
			"the lock is kept"},
		{"fair", []Call{
			FairAcquire.Call("x", "{x}:t", "{x}:q", "{x}:d", "{x}:c", "a:h1", 30000, 3600000, "0", 60000, 60000, "PUBLISH"),
			FairAcquire.Call("x", "{x}:t", "{x}:q", "{x}:d", "{x}:c", "b:h1", 30000, 3600000, "0", 60000, 60000, "PUBLISH")},
			func(publish string) Call {
				return FairRelease.Call("x", "{x}:t", "{x}:q", "{x}:d", "{x}:c", "a:h1", publish, 60000, 3600000)
			}, "{x}:c:b", "", "the waiter is passed over"},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := newFixture(t)
			for _, classic := range []bool{true, false} {
				require.NoError(t, f.rdb.FlushAll(t.Context()).Err())
				for _, call := range row.prepare {
					f.run(call)
				}
				// one who hears all channels, and is not among the listeners of one
				sub := f.rdb.PSubscribe(t.Context(), "*")
				_, err := sub.Receive(t.Context())
				require.NoError(t, err)
				command := "PUBLISH"
				if classic {
					command = PublishClassic
				}
				f.run(row.run(command))
				require.NoError(t, f.rdb.Publish(t.Context(), "end", "").Err())
				heard := ""
				for message := range sub.Channel() {
					if message.Channel == "end" {
						break
					}
					heard = message.Channel
					if row.text != "" {
						require.Equal(t, row.text, message.Payload)
					}
				}
				require.NoError(t, sub.Close())
				if classic {
					require.Equal(t, row.told, heard)
				} else {
					require.Empty(t, heard, row.control)
				}
			}
		})
	}
}

// TestClassicReaders: the end of a reader wakes who waits for others whose leases have ended, though
// nobody listens at this server.
func TestClassicReaders(t *testing.T) {
	f := newFixture(t)
	reader := func(owner string) string { return "{x}:" + owner + ":rwlock_timeout:1" }
	for command, left := range map[string]int64{PublishClassic: 0, "PUBLISH": 1} {
		require.NoError(t, f.rdb.FlushAll(t.Context()).Err())
		require.NoError(t, f.rdb.HSet(t.Context(), "x", "mode", "read", "a:h1", 1, "b:h1", 1).Err())
		require.NoError(t, f.rdb.PExpire(t.Context(), "x", time.Hour).Err())
		require.NoError(t, f.rdb.Set(t.Context(), reader("a:h1"), 1, time.Hour).Err())
		require.Equal(t, Done, f.run(RwReadRelease.Call("x", "{x}:c", reader("a:h1"), "a:h1", command)).Status)
		require.Equal(t, left, f.rdb.Exists(t.Context(), "x").Val(), "what b left, whose lease has ended; %s", command)
	}
}
