package redisson

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// changes are what a storm's history is changed by, for each check of the kinds that are not reentrant
// locks of one holder: a story that is added to what happened to a name, and the checks that are to find it.
var changes = []struct {
	what, name string
	late       bool
	story      string
	checks     []string
}{
	{"a writer is trusted into the next one's grant", rwNames[0], false,
		"90: lock y#1 guest @1-2; 91: lock z#2 @11-12; 90: unlock y#1 guest @31-32; 91: unlock z#2 @41-42", []string{"exclusion", "linearizability"}},
	{"two writes with one token", rwNames[0], false,
		"90: lock y#1 guest @1-2; 90: unlock y#1 guest @11-12; 91: lock z#1 @21-22; 91: unlock z#1 @31-32", []string{"linearizability"}},
	{"a reader has an older token", rwNames[0], false,
		"90: lock y#2 @1-2; 90: unlock y#2 @11-12; 91: read z#1 guest @21-22; 91: unlock z#1 read @31-32", []string{"read token", "linearizability"}},
	{"a reader of Redisson's has one entry more", rwNames[0], false,
		"90: read z#1 guest @1-2; 90: state z#1 read n2 @11-12; 90: unlock z#1 read @31-32", []string{"linearizability"}},
	{"one that reads is not refused to write", rwNames[0], false,
		"90: read z#1 @1-2; 90: upgrade z#1 read left @11-12; 90: unlock z#1 read @31-32", []string{"upgrade"}},
	{"a reader of ours is let in before a writer", rwNames[0], false,
		"90: lock w#2 @1-4s; 90: queue w#2 @2-3; 90: queue w#2 denied @3999999998-3999999999; 91: read r#1 @11-12", []string{"turns"}},
	{"a reader sleeps on", rwNames[0], true, "90: read z#1152921504606846976 @1-17s", []string{"wake-up"}},
	{"a writer sleeps on", rwNames[0], true, "90: lock z#1152921504606846976 @1-17s", []string{"wake-up"}},
	{"more are out than there are", permitNames[0], false,
		"90: lock y#0 x4 guest @1-2; 91: lock z#1 x1 @11-12; 90: unlock y#0 guest @31-32; 91: unlock z#1 @41-42", []string{"permits", "linearizability"}},
	{"ours have one token", permitNames[0], false,
		"90: lock y#1 x1 @1-2; 91: lock z#1 x1 @11-12; 90: unlock y#1 @31-32; 91: unlock z#1 @41-42", []string{"linearizability"}},
	{"ours has no token", permitNames[0], false, "90: lock z#0 x1 @1-2; 90: unlock z#0 @31-32", []string{"linearizability"}},
	{"one is refused though all are free", permitNames[0], false, "90: try of1 denied @1-2", []string{"linearizability"}},
	{"one is lost", permitNames[0], true, "90: state n3 of4 last @1-2", []string{"lost permits"}},
	{"one of ours goes before one that stands in the queue", permitNames[0], true,
		"90: lock a#1152921504606846977 x1 @1-100; 90: queue a#0 @2-3; 91: lock b#1152921504606846976 x1 @11-51", []string{"fifo"}},
	{"one who waits for permits sleeps on", permitNames[0], true, "90: lock z#1152921504606846976 x1 @1-17s", []string{"wake-up"}},
	{"a latch is not open that nobody has set", latchNames[0], false, "90: look n1 @1-2", []string{"linearizability"}},
	{"a count-down of Redisson's counts twice", latchNames[0], false,
		"90: set n3 @1-2; 90: count n-1 guest @11-12; 90: look n1 @21-22; 90: delete @31-32", []string{"linearizability"}},
	// before all: a Set without an answer may come at any time
	{"one who waits for an open latch sleeps on", latchNames[0], false, "90: look n0 @1-2; 90: wait @11-17s", []string{"wake-up"}},
}

// refuses checks that the checks find what is changed in the history of a storm that they did not
// object to.
func (st *storm) refuses(t *testing.T, ops []history.Op) {
	t.Helper()
	for _, c := range changes {
		own := slices.DeleteFunc(slices.Clone(ops), func(o history.Op) bool { return o.Name != c.name && o.Name != "" })
		// In front of all that has happened nothing of it is an excuse, while after the end one whose process was
		// killed may have been granted something. Or long after all, so that nothing of it is one either.
		at := -int64(time.Hour)
		for _, o := range own {
			if c.late && o.Return != history.Forever {
				at = max(at, o.Return+int64(time.Hour)/2)
			}
		}
		of := own[slices.IndexFunc(own, func(o history.Op) bool { return o.Name == c.name })].Of
		for _, o := range history.Story(of, c.name, c.story) {
			o.Call, o.Return = at+o.Call, at+o.Return
			own = append(own, o)
		}
		cfg := st.config()
		cfg.Limit = 2 * time.Minute // but what is not decided does not count
		found := history.Check(own, cfg)
		for _, check := range c.checks {
			require.True(t, slices.ContainsFunc(found, func(v history.Violation) bool {
				return v.Check == check && !strings.Contains(v.Text, "not decided")
			}), "%s: %q does not find it; %d others", c.what, check, len(found))
		}
	}
}
