package keys

import (
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

// tag is the part of a key that Redis Cluster hashes, by its specification and not by our own rule.
func tag(key string) string {
	if i := strings.IndexByte(key, '{'); i >= 0 {
		if j := strings.IndexByte(key[i+1:], '}'); j > 0 {
			return key[i+1 : i+1+j]
		}
	}
	return key
}

// FuzzOneSlot: whatever name is let through, its keys share a slot. What Check refuses is refused
// for a reason: the keys of such a name would differ (the control: without Check the property
// fails).
func FuzzOneSlot(f *testing.F) {
	for _, s := range []string{"", "a", "{", "}", "{}", "a}b{c}", "{a}{b}", "x{}y{z}", "{a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		k := For(name)
		same := tag(k.Name) == tag(k.Channel) && tag(k.Name) == tag(k.Token)
		if (Check(name) == nil) != (same && name != "") {
			t.Fatalf("name %q: check %v, one slot %v", name, Check(name), same)
		}
	})
}
