package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRefusals: what a refusal has to say, and when.
func TestRefusals(t *testing.T) {
	const owner = "4bb565b9-7975-530a-16d4-42315f83f777:h7"
	const thing, names = "foreign seen=no+lock @500s-600s; ", "try denied error=held+by+" + owner + ",+whose+lease @1s-2s"
	for _, c := range []struct {
		what, ops string
		wrong     int
	}{
		{"names the holder", names, 0},
		{"does not", "try denied error=not+acquired @1s-2s", 1},
		{"says what is there", "try denied error=that+is+no+lock @550s-551s", 0},
		{"says so with an error", "try refused error=that+is+no+lock @550s-551s", 0},
		{"says what is not there", "try denied error=held+by+" + owner + " @550s-551s", 1},
		{"was granted all the same", "try @550s-551s", 1},
		{"may have come before it", "try @499s-500s", 0},
		{"or been refused before it", "try denied @499s-500s", 0},
		{"has no answer", "try unknown error=timeout @550s-551s", 0},
	} {
		require.Len(t, Refusals(story(Locks, thing+c.ops)), c.wrong, c.what)
	}
	require.Equal(t, []Sample{{At: 2e9, Name: "a", Owner: owner}}, Named(story(Locks, names)))
}

// TestOutages: who is told of an outage needs one.
func TestOutages(t *testing.T) {
	c := Config{Outages: true, Recovery: 10, Faults: []Window{{100, 120}}, Local: map[int][]Window{1: {{200, 220}}},
		Pauses: map[int][]Window{2: {{300, 320}}}}
	for ops, wrong := range map[string]int{
		"lock left silent @10-20":                                      1,
		"read unknown silent @10-99":                                   1,
		"try left silent @131-140":                                     1,
		"1: lock left silent @231-240; 2: lock left silent @210-215":   2,
		"lock left silent error=outcome+unknown:+client+closed @10-20": 0,
		"lock left @10-20; unlock unknown silent a#1 @20-30":           0,
		"lock left silent @10-101":                                     0,
		"try left silent @129-140":                                     0,
		"1: reenter unknown silent a#1 @210-215":                       0,
		"lock left silent @325-330":                                    0,
	} {
		require.Len(t, Outages(story(Locks, ops), c), wrong, ops)
	}
	require.Empty(t, Outages(story(Locks, "lock left silent @10-20"), Config{}), "where nothing is known of servers")
}
