package history

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const lease = 100 // ns, which is all that these histories take

func story(f Family, text string) []Op { return Story(f, "a", text) }

// row is a history, and the checks that it fails.
type row struct{ what, ops, fails string }

// judge checks that each history fails the checks that it is to fail, and no other.
func judge(t *testing.T, f Family, rows []row) {
	t.Helper()
	for _, r := range rows {
		require.ElementsMatch(t, strings.FieldsFunc(r.fails, func(r rune) bool { return r == ',' }), checks(story(f, r.ops)), r.what)
	}
}

// checks are the names of the checks that a history fails, each once.
func checks(ops []Op, faults ...Window) (failed []string) {
	seen := map[string]bool{}
	for _, v := range Check(ops, Config{Lease: lease, Bound: 10, Recovery: 5, Permits: 3, Faults: faults}) {
		if !seen[v.Check] {
			failed = append(failed, v.Check)
		}
		seen[v.Check] = true
	}
	return failed
}
