package keys

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestForSpellsRedissonsNames(t *testing.T) {
	require.Equal(t, Lock{
		"foo", "redisson_lock__channel:{foo}", "redisson_lock_token:{foo}", "redisson_lock_queue:{foo}",
		"redisson_lock_timeout:{foo}",
	}, For("foo"))
	require.Equal(t, Lock{
		"a:{b}:c", "redisson_lock__channel:a:{b}:c", "redisson_lock_token:a:{b}:c", "redisson_lock_queue:a:{b}:c",
		"redisson_lock_timeout:a:{b}:c",
	}, For("a:{b}:c"))
	require.Equal(t, "redisson_lock__channel:{foo}:owner", For("foo").Mailbox("owner"))
	require.Equal(t, "holdfast_fence:{foo}", Fence("foo"))
	require.Equal(t, "holdfast_fence:a:{b}:c", Fence("a:{b}:c"))
}

func TestCheckSaysWhatToDo(t *testing.T) {
	for name, remedy := range map[string]string{
		"":       "give the lock a name",
		"a}b":    "remove it",
		"a{b":    "close it",
		"}a{b":   "close it",
		"{}x":    "fill it",
		"x{}y":   "fill it",
		"a{}{b}": "fill it",
	} {
		err := Check(name)
		require.ErrorContains(t, err, remedy, name)
	}
	for _, name := range []string{"a", "orders:42", "{a}", "x{a}y", "a}b{c}", "{{a}", "{a}}", "\x00 \n", "\xff"} {
		require.NoError(t, Check(name), name)
	}
}

// TestNamesComeBack: from each key and channel by which locks are found, the name does.
func TestNamesComeBack(t *testing.T) {
	const client = "11111111-2222-4333-8444-555555555555"
	for _, name := range []string{"a", "orders:42", "{a}b", "x{y}", "a:{b}:c", "*", "redisson_lock_token:x"} {
		k := For(name)
		for key, by := range map[string]Trace{k.Token: ByToken, k.Queue: ByQueue, ForLatch(name).Call(client + ":h17"): ByLatch} {
			got, how := Named(key)
			require.Equal(t, name, got, key)
			require.Equal(t, by, how)
			found, err := path.Match(Search(""), strings.ReplaceAll(key, "/", "|"))
			require.NoError(t, err)
			require.True(t, found, key)
		}
		for _, channel := range []string{
			k.Channel, k.Mailbox(client), k.Mailbox(client + ":17"), ForReadWrite(name).Channel, ForPermits(name).Channel,
			ForPermits(name).Channel + ":" + client, ForLatch(name).Channel, ForLatch(name).Sharded,
		} {
			got, how := Heard(channel)
			require.Equal(t, name, got, channel)
			require.Equal(t, ByChannel, how)
		}
	}
	// Two names with one token: the one without braces stands for both.
	got, _ := Named(For("{a}").Token)
	require.Equal(t, "a", got)
	require.Equal(t, "{a}", Twin("a"))
	require.Equal(t, "a", Twin("{a}"))
	require.Empty(t, Twin("{a}b"))
	require.Equal(t, For("a").Token, For("{a}").Token)

	for _, key := range []string{
		"other", k("redisson_lock_timeout"), k("redisson_lock__channel"), "redisson_lock_token", "redisson_lock_token:", "redisson_lock_token:a{",
		"holdfast_latch:{a}", "holdfast_latch:{a}:7", "holdfast_fence:{a}",
	} {
		_, by := Named(key)
		require.Equal(t, NoTrace, by, key)
	}
	require.True(t, Wants(ForPermits("a").Wants))
	require.False(t, Wants("a"))
}

func k(prefix string) string { return prefix + ":{a}" }
