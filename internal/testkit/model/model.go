// Package model explores every state that a small model of a protocol can reach. It visits all
// interleavings, breadth first, so the trace of a violation is a shortest one. It is for tests, and
// contains what the models in the folders below share:
//
//   - model.go, explore.go: the explorer, and the steps that it takes;
//   - scenario.go: the promises of a model; running it within bounds, and without each of its defences;
//   - network.go: messages under way, and time.
//
// Package fidelity runs the server half of a model beside the real scripts. Package server is the
// server half that four models share.
//
// A model is a first state and a function that takes the possible steps of a state. A state is a value
// that can be compared, best a small struct without pointers; equal states are one state. A model bounds
// the number of clients, messages and faults, so it has finitely many states. Within these bounds the
// explorer leaves nothing out.
//
// It checks two kinds of statement. Check must hold in every state ("at most one holder"). Goal must be
// reachable from every state by quiet steps alone ("when faults end, the lock can become free").
//
// Not promised: anything beyond the bounds, nor that a model behaves like the code that it models.
// Package fidelity tests the latter for scripts; nothing does for clients.
package model

import (
	"errors"
	"fmt"
	"strings"
)

// Model is what the explorer explores. Start and Next are required.
type Model[S comparable] struct {
	Start S
	// Next takes each step that is possible in s. It must take the same steps in each call, because the
	// explorer finds the trace of a violation by calling it again.
	Next func(s S, out *Steps[S])
	// Settle clears what no later step depends on, so that states which differ only in that become equal.
	// The explorer calls it for the state after each step. If it returns false, the bounds have no room
	// for that state, and the step is not taken.
	Settle func(s *S) bool
	// Check returns the promise that a state breaks, or nil.
	Check func(s *S) error
	// Goal reports whether a state is one that quiet steps must be able to reach from every state. Nil:
	// not checked.
	Goal func(s *S) bool
	// Only is the violation that a control looks for; nil: any. The explorer skips Goal if Only is another
	// violation than ErrStuck. Check has to look at it itself, see [Promises.First].
	Only error
	// MaxStates stops an exploration that is larger than its author believed. Default 8 million.
	MaxStates int
	// Cut points to the model's count of messages that its bounds had no room for. The report copies it.
	Cut *int
}

// Report is the result of an exploration.
type Report struct {
	States      int        // different ones
	Transitions int        // steps taken
	Depth       int        // the distance of the farthest state from the start, in steps
	Cut         int        // messages that the bounds had no room for
	Violation   *Violation // the first one found, or nil
}

// Violation is a state that breaks a promise, with a shortest trace to it.
type Violation struct {
	Reason error
	Trace  []string // labels, from the first step to the last
	State  any
}

// ErrStuck is the reason of a violation if Goal cannot be reached.
var ErrStuck = errors.New("the goal cannot be reached from here by quiet steps")

// String prints the trace, one line per step.
func (v *Violation) String() string {
	return fmt.Sprintf("%v, after %d steps:\n  %s\n  %+v", v.Reason, len(v.Trace), strings.Join(v.Trace, "\n  "),
		v.State)
}

const maxStates = 8_000_000

// Explore visits every state of a model, or stops at the first violation. It returns an error if there
// are more states than MaxStates; then the report says nothing.
func Explore[S comparable](m Model[S]) (Report, error) {
	if m.MaxStates <= 0 {
		m.MaxStates = maxStates
	}
	if m.Only != nil && !errors.Is(m.Only, ErrStuck) { // a control looks for another violation
		m.Goal = nil
	}
	e := newExplorer(m)
	err := e.run()
	if m.Cut != nil {
		e.report.Cut = *m.Cut
	}
	return e.report, err
}

// Steps collects the steps that are possible in a state. A step has a label: the letter of its actor,
// such as 'A' for a client, and a text. The letter is 0 if nobody acts. The explorer joins the two only
// when it prints a trace, so texts should be constants.
//
// A quiet step happens by itself sooner or later: an answer comes, time passes, a user unlocks. A loud
// step is a fault, or an action that its actor may omit. A goal must be reachable by quiet steps.
type Steps[S comparable] struct {
	settle func(*S) bool
	to     S // the state after the present step
	take   func(who int, what string, quiet bool)
}

// Quiet takes a quiet step.
func (o *Steps[S]) Quiet(who int, what string, next S) { o.Step(who, what, true, next) }

// Loud takes a loud step.
func (o *Steps[S]) Loud(who int, what string, next S) { o.Step(who, what, false, next) }

// Step takes a step that is quiet only in some scenarios.
func (o *Steps[S]) Step(who int, what string, quiet bool, next S) {
	o.to = next
	if o.settle == nil || o.settle(&o.to) {
		o.take(who, what, quiet)
	}
}

func label(who int, what string) string {
	if who == 0 {
		return what
	}
	return string(rune(who)) + ": " + what
}
