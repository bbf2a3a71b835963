package keys

import (
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
