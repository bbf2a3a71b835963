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

// TestOutages: who is told that no server answers did not hear an answer a moment ago.
func TestOutages(t *testing.T) {
	const told, answer = "lock left outage error=no+answer", "state @900-910; try denied @920-930; "
	c := Config{Recovery: 10, Faults: []Window{{100, 120}}, Local: map[int][]Window{1: {{100, 1200}}}}
	for ops, wrong := range map[string]int{
		answer + told + " @940-950":                                         1,
		"try denied @900-910; try unknown outage error=no+answer @910-950":  1,
		answer + told + " @99000000-100000000":                              1,
		answer + told + " @1000000940-1000000950":                           0,
		answer + told + " @940-100000940":                                   0,
		answer + "lock left outage error=refused @940-950":                  0,
		answer + "lock left @940-950":                                       0,
		"state @900-945; try denied @920-947; " + told + " @940-950":        0,
		"lock @900-910; state lost @920-930; " + told + " @940-950":         0,
		"2: state @900-910; " + told + " @940-950":                          0,
		"state @10-20; " + told + " @110-130":                               0,
		"1: state @900-910; 1: lock left outage error=no+answer @1205-1208": 0,
		"1: state @900-910; 1: lock left outage error=no+answer @1215-1218": 1,
	} {
		require.Len(t, Outages(story(Locks, ops), c), wrong, ops)
	}
}
