package model

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

// Scenario is a model within bounds: M is a struct whose fields are the bounds. (The alias keeps tables
// short: go vet wants field names in the literals of a named type of another package.)
type Scenario[M any] = struct {
	Name string
	In   M
}

// Explorer explores a model of type M without some of its defences. If only is not nil, it ignores other
// violations.
type Explorer[M, D any] func(in M, off D, only error) (Report, error)

// Run explores scenarios, and logs the size of each. It fails if a scenario breaks a promise.
func Run[M, D any](t *testing.T, of string, explore Explorer[M, D], scenarios []Scenario[M]) {
	for _, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			var all D
			r, err := explore(s.In, all, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("proof: %s, %s: %d states, %d transitions, depth %d, %d messages cut off by the bounds %s",
				of, s.Name, r.States, r.Transitions, r.Depth, r.Cut, bounds(s.In))
			if r.Violation != nil {
				t.Error(r.Violation)
			}
		})
	}
}

// Looks reports whether the goal matters: not to a control that looks for another violation.
func Looks(only error) bool { return only == nil || errors.Is(only, ErrStuck) }

// Large reports whether to explore within wide bounds, which takes minutes: in a soak, or if
// HOLDFAST_MODEL=large in the environment.
func Large() bool { return level.Soaking() || os.Getenv("HOLDFAST_MODEL") == "large" }

// none matches bounds that are zero. The log leaves them out.
var none = regexp.MustCompile(`\b\w+:(0|false|<nil>|\[[0\[\] ]*\]) ?`)

func bounds(in any) string { return none.ReplaceAllString(fmt.Sprintf("%+v", in), "") }
