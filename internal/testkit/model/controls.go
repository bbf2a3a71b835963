package model

import (
	"fmt"
	"strings"
	"testing"
)

// Control takes a defence out of a model: then there is a way to break a promise, or the defence is
// none. (It has no name of its own, so that tables need no names of fields.)
type Control[M, D any] = struct {
	What string // the defence
	Off  D      // its bit, and those of others that would hide the harm
	In   M
	Want error // the promise that is broken: another one does not count
}

// Defence is a set of defences that are switched off.
type Defence uint64

// Has reports whether one of these is.
func (d Defence) Has(one Defence) bool { return d&one != 0 }

// Controls explores a model without each of its defences. It fails if no promise is broken without
// one. The log has the length of the way to that, and with large bounds the way itself.
func Controls[M, D any](t *testing.T, of string, explore Explorer[M, D], controls []Control[M, D]) {
	var table strings.Builder
	for _, c := range controls {
		r, err := explore(c.In, c.Off, c.Want)
		switch {
		case err != nil:
			t.Errorf("without %q: %v", c.What, err)
		case r.Violation == nil:
			t.Errorf("without %q nothing is found in %d states; %v was expected", c.What, r.States, c.Want)
		default:
			fmt.Fprintf(&table, "\nproof:   %-64s %2d steps, %d states: %v", c.What, len(r.Violation.Trace), r.States,
				r.Violation.Reason)
			if Large() {
				t.Logf("without %q: %v", c.What, r.Violation)
			}
		}
	}
	t.Logf("proof: %-73s there is a way of%s", of+": without", table.String())
}
