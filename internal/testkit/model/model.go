// Package model explores every state that a small model of a protocol can get into: all
// interleavings, breadth first, so that the way to a violation is a shortest one. It is for tests,
// and has what the models in the folders below it share:
//
//   - model.go, explore.go, store.go: the explorer;
//   - steps.go, promises.go: what a model says of its steps, and what must never be;
//   - scenario.go, controls.go: models within bounds, each defence taken out in turn;
//   - network.go, clock.go: messages under way, and time.
//
// Package fidelity below it runs the server's half of a model and the real scripts side by side.
//
// A model is a first state and a function that says what can happen next. States are values that can
// be compared, best a small struct without pointers: two that are equal are one. What is explored is
// finite because the model bounds it (few clients, few messages, few faults); within these bounds
// nothing is left out.
//
// Two kinds of statement are checked. Check holds in every state ("at most one holder"). Goal can
// be reached from every state by quiet steps alone ("when faults end, the lock can become free").
//
// Not promised: anything about what lies beyond the bounds, nor that a model is like the thing that it
// models. The latter is what package fidelity is for.
package model

import (
	"errors"
	"fmt"
	"strings"
)

// Model is what is explored. Start and Next are required.
type Model[S comparable] struct {
	Start S
	// Next hands over each step that can be taken in s. It must do the same each time that it is called,
	// because the way to a violation is found by calling it again.
	Next func(s S, out *Steps[S])
	// Settle makes states equal that differ only in what matters to nobody any more. It is called for
	// every state that a step leads to. False: the bounds have no room for it, and the step is not taken.
	Settle func(s *S) bool
	// Check returns what is wrong with a state, nil if nothing is.
	Check func(s *S) error
	// Goal is what can be reached from every state by quiet steps. Without Goal that is not checked.
	Goal func(s *S) bool
	// MaxStates ends an exploration that is larger than its author believed. Default 20 million.
	MaxStates int
}

// Report is what an exploration saw.
type Report struct {
	States      int        // that differ
	Transitions int        // steps taken from them
	Depth       int        // the most steps that a state is away from the start
	Cut         int        // messages for which the bounds had no room: the model counts them
	Violation   *Violation // the first one met, nil if there is none
}

// Violation is a state that must not be, and a shortest way to it.
type Violation struct {
	Reason error
	Trace  []string // labels, from the first step to the last
	State  any
}

// ErrStuck is the reason of a violation of Goal.
var ErrStuck = errors.New("the goal cannot be reached from here by quiet steps")

// String is the way in one line per step.
func (v *Violation) String() string {
	return fmt.Sprintf("%v, after %d steps:\n  %s\n  %+v", v.Reason, len(v.Trace), strings.Join(v.Trace, "\n  "),
		v.State)
}

const maxStates = 20_000_000

// Explore visits every state of a model, or stops at the first violation. The error says that the
// model is larger than MaxStates; nothing is known then.
func Explore[S comparable](m Model[S]) (Report, error) {
	if m.MaxStates <= 0 {
		m.MaxStates = maxStates
	}
	e := newExplorer(m)
	err := e.run()
	return e.report, err
}
