package keys

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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

// TestSlot: the rule above is the specification's, by its own test vector and by what redis-cli
// says of some keys.
func TestSlot(t *testing.T) {
	for key, want := range map[string]uint16{
		"123456789": 0x31c3, "foo": 12182, "{foo}bar": 12182, "foo{}{bar}": 8363, "foo{{bar}}zap": 4015, "": 0,
	} {
		require.Equal(t, want, slot(key), key)
	}
}

// FuzzSlots: of a name that is let through all keys are in one slot. One that is refused is refused for
// a reason: it is empty, or its keys would differ (the control: without Check the property fails). Two
// names share what is derived from them only if one is the other in braces: "a" and "{a}" have one
// channel and one token key, as they have one channel in Redisson. That is harmless. A wake-up too many
// costs one look, and tokens that two locks draw from one well still grow for each.
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
