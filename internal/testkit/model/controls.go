package model

import (
	"fmt"
	"strings"
	"testing"
)

// Control takes a defence out of a model. Without it the model must break a promise; otherwise it
// defends nothing. (An alias, as Scenario is.)
type Control[M, D any] = struct {
	What string // the defence
	Off  D      // its bit, and the bits of other defences that would hide the harm
	In   M      // the bounds
	Want error  // the promise that breaks
}

// Defence is a set of defences that a control switches off.
type Defence uint64

// Has reports whether the set contains a defence.
func (d Defence) Has(one Defence) bool { return d&one != 0 }

// Controls explores a model without each of its defences. It fails if the model breaks no promise without
// one of them. It logs the length of each trace, and with wide bounds also the trace.
func Controls[M, D any](t *testing.T, of string, explore Explorer[M, D], controls []Control[M, D]) {
	var table strings.Builder
	for _, c := range controls {
		way, err := without(explore, c)
		if err != nil {
			t.Errorf("without %q: %v", c.What, err)
			continue
		}
		fmt.Fprintf(&table, "\nproof:   %-64s %2d steps, %d states: %v", c.What, len(way.Violation.Trace), way.States,
			way.Violation.Reason)
		if Large() {
			t.Logf("without %q: %v", c.What, way.Violation)
		}
	}
	t.Logf("proof: %-73s there is a way of%s", of+": without", table.String())
}

// without runs one control.
func without[M, D any](explore Explorer[M, D], c Control[M, D]) (Report, error) {
	r, err := explore(c.In, c.Off, c.Want)
	if err == nil && r.Violation == nil {
		err = fmt.Errorf("nothing is found in %d states; %w was expected", r.States, c.Want)
	}
	return r, err
}
