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
		for key, by := range map[string]Trace{
			k.Token: ByToken, k.Queue: ByQueue, ForLatch(name).Counts: ByLatch, ForLatch(name).Call(client + ":h17"): ByLatch,
		} {
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
		"holdfast_fence:{a}",
	} {
		_, by := Named(key)
		require.Equal(t, NoTrace, by, key)
	}
	require.True(t, Wants(ForPermits("a").Wants))
	require.False(t, Wants("a"))
}

func k(prefix string) string { return prefix + ":{a}" }

// tag is the part of a key that Redis Cluster hashes, by its specification and not by our own rule: what
// stands between the first { and the first } behind it, or the whole key.
func tag(key string) string {
	if _, tail, open := strings.Cut(key, "{"); open {
		if inner, _, closed := strings.Cut(tail, "}"); closed && inner != "" {
			return inner
		}
	}
	return key
}

// slot is the cluster's slot of a key: CRC16 (XMODEM) of its tag, modulo 16384.
func slot(key string) uint16 {
	hashed := tag(key)
	var crc uint16
	for i := range len(hashed) {
		crc ^= uint16(hashed[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}

// TestSlot: the rule above is the specification's, by its own test vector and by what redis-cli says of some keys.
func TestSlot(t *testing.T) {
	for key, want := range map[string]uint16{
		"123456789": 0x31c3, "foo": 12182, "{foo}bar": 12182, "foo{}{bar}": 8363, "foo{{bar}}zap": 4015, "": 0,
	} {
		require.Equal(t, want, slot(key), key)
	}
}

// FuzzSlots: of a name that is let through all keys are in one slot. One that is refused is refused for a reason: it is empty,
// or its keys would differ (the control: without Check the property fails). Two names share what is derived from them only if
// one is the other in braces: "a" and "{a}" have one channel and one token key, as they have one channel in Redisson. That is
// harmless. A wake-up too many costs one look, and tokens that two locks draw from one well still grow for each.
func FuzzSlots(f *testing.F) {
	f.Add("orders:42", "orders:43")
	f.Add("a", "{a}")
	f.Add("a:{b}:c", "b")
	f.Add("a}b{c}", "c")
	f.Add("{{a}", "{a")
	for _, name := range []string{"", "{", "}", "{}", "{a}{b}", "x{}y{z}", "{a"} {
		f.Add(name, "a")
	}
	f.Add("redisson_lock_token:{a}", "a")
	f.Add("\x00{\xff}", "\n")
	f.Fuzz(func(t *testing.T, one, other string) {
		a, b := For(one), For(other)
		if err := Check(one); err != nil && one != "" && tag(one) == tag(a.Channel) && tag(one) == tag(a.Token) {
			t.Fatalf("name %q: %v, but its keys are in one slot", one, err)
		}
		if Check(one) != nil || Check(other) != nil {
			return
		}
		for _, key := range []string{a.Channel, a.Token, a.Queue, a.Deadlines, a.Mailbox("owner:h1"), Fence(one)} {
			if slot(a.Name) != slot(key) {
				t.Fatalf("the keys of %q are in slots %d and %d (%s)", one, slot(a.Name), slot(key), key)
			}
		}
		if a.Name != one || a.Token == b.Channel || a.Channel == a.Name || a.Token == a.Name {
			t.Fatalf("the keys of %q are %+v", one, a)
		}
		braces := one == "{"+other+"}" || other == "{"+one+"}"
		if one != other && !braces && (a.Channel == b.Channel || a.Token == b.Token) {
			t.Fatalf("%q and %q share a key: %+v, %+v", one, other, a, b)
		}
	})
}
