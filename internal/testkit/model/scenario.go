package model

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

// Scenario is a model within bounds: M is a struct whose fields are the bounds. (It has no name of its
// own, so that tables need no names of fields.)
type Scenario[M any] = struct {
	Name string
	In   M
}

// Explorer explores a model of type M without some of its defences. If only is not nil, no other
// violation counts.
type Explorer[M, D any] func(in M, off D, only error) (Report, error)

// Run explores scenarios. It fails if a promise is broken in one of them, and logs what was seen.
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

// Looks reports whether a goal is checked: in a control only if it is what is looked for.
func Looks(only error) bool { return only == nil || errors.Is(only, ErrStuck) }

// Large reports whether the bounds are those for a longer look, which takes minutes: in a soak, or if
// HOLDFAST_MODEL=large in the environment.
func Large() bool { return level.Soaking() || os.Getenv("HOLDFAST_MODEL") == "large" }

// none are bounds that are zero.
var none = regexp.MustCompile(`\b\w+:(0|false|<nil>|\[[0\[\] ]*\]) ?`)

func bounds(in any) string { return none.ReplaceAllString(fmt.Sprintf("%+v", in), "") }
