package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	place  = "1: queue a#0 @4-5; " // of one that surely had its place at 5
	first  = place + "1: lock a#2 @4-40; "
	stays  = place + "1: lock unknown @4-; "
	second = "2: queue b#0 @6-7; 2: lock b#1 @6-20"
)

// TestFifo: two waiters, of which the first surely had its place at 5. What the second does
// decides.
func TestFifo(t *testing.T) {
	for _, c := range []struct {
		what, ops string
		wrong     bool
	}{
		{"in order", place + "1: lock a#1 @4-20; 2: queue b#0 @6-7; 2: lock b#2 @6-40", false},
		{"overtaken", first + second, true},
		{"both asked at one time", first + "2: queue b#0 @5-7; 2: lock b#1 @5-20", false},
		{"called late, but asked early", first + "2: queue b#0 @6-7; 2: lock b#1 @3-20", true},
		{"passed by one that never waited", first + "2: try b#1 @6-7", true},
		{"which called before", first + "2: try b#1 @5-7", false},
		{"granted what it had before it asked for a place", first + "2: queue b#0 denied @6-7; 2: lock b#1 @3-7", false},
		{"overtaken, and left after that", place + "1: lock left @4-30; " + second, true},
		{"left, and then the other was granted it", place + "1: lock left @4-15; " + second, false},
		{"still waits", stays + second, true},
		{"died", stays + "1: crash @15-16; " + second, false},
		{"died later", stays + "1: crash @25-26; " + second, true},
		{"another died", first + "3: crash @15-16; " + second, true},
		{"never surely had one", "1: queue unknown @4-5; 1: lock a#2 @3-40; " + second, false},
		{"the data was lost", first + "wipe @10-11; " + second, false},
		{"its client lost the lock", first + "1: end z#1 lost @10-10; " + second, false},
		{"its client lost it before", first + "1: end z#1 lost @4-4; " + second, true},
		{"its client lost it later", first + "1: end z#1 lost @21-21; " + second, true},
		{"another client lost it", first + "3: end z#1 lost @10-10; " + second, true},
	} {
		require.Equal(t, c.wrong, len(Fifo(story(Locks, c.ops), Config{Recovery: 5})) > 0, c.what)
	}
	other := story(Locks, first+"2: try b#1 @6-7")
	other[2].Name = "b"
	require.Empty(t, Fifo(other, Config{Recovery: 5}), "another lock")
}

// TestFifoExcuses: who could not be reached while it waited may be passed over. That others could
// not does not matter.
func TestFifoExcuses(t *testing.T) {
	ops := story(Locks, first+second)
	for _, c := range []struct {
		what  string
		fault Window
		wrong bool
	}{
		{"meanwhile", Window{10, 12}, false},
		{"before, and it had not recovered", Window{1, 2}, false},
		{"long before", Window{-5, -2}, true},
		{"after it was overtaken", Window{21, 22}, true},
	} {
		local := func(client int) Config { return Config{Recovery: 5, Local: map[int][]Window{client: {c.fault}}} }
		require.Equal(t, c.wrong, len(Fifo(ops, Config{Recovery: 5, Faults: []Window{c.fault}})) > 0, "all: "+c.what)
		require.Equal(t, c.wrong, len(Fifo(ops, local(1))) > 0, "it: "+c.what)
		require.Len(t, Fifo(ops, local(2)), 1, "the other: "+c.what)
	}
	left := story(Locks, place+"1: lock left @4-30; "+second)
	require.Len(t, Fifo(left, Config{Slack: 9}), 1)
	for _, c := range []Config{{Slack: 10}, {Leaving: 10}} {
		require.Empty(t, Fifo(left, c), "it may have left long before it said so")
	}
}

// TestRefusedForTheQueue: a fair lock that is free refuses who does not wait while somebody else
// has a place.
func TestRefusedForTheQueue(t *testing.T) {
	for _, c := range []struct {
		what, ops string
		wrong     bool
	}{
		{"somebody has a place", "1: queue a#0 @40-41; 1: lock a#1 @40-50; try denied @45-46", false},
		{"nobody had a place yet", "1: queue a#0 @40-41; 1: lock a#1 @40-50; try denied @20-21", true},
		{"its place is being given back", "1: queue @40-41; 1: lock left @40-50; try denied @54-55", false},
		// The Lock that left is a ghost too, for as long as a lease may stand; so a refusal after that.
		{"it is long gone", "1: queue @40-41; 1: lock left @40-50; try denied @200-201", true},
		{"a lock without a queue", "try denied @45-46", true},
	} {
		found := Linearizable(story(Locks, c.ops), Config{Lease: lease, Recovery: 5, Place: 20})
		require.Equal(t, c.wrong, len(found) > 0, c.what)
	}
}

// TestFifoOfPermits: who was handed permits and asks again gets a new token, so nothing is known of its
// turn. Who waits for more than there are has no turn.
func TestFifoOfPermits(t *testing.T) {
	for more, wrong := range map[string]int{"": 1, "; 1: queue a#0 denied @30-31": 0, "; set of1 @10-11": 0, "; set of2 @10-11": 1} {
		require.Len(t, Fifo(story(Permits, place+"1: lock a#2 of2 @4-40; "+second+more), Config{}), wrong, more)
	}
}
