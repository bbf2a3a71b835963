// Package model explores every state that a small model of a protocol can get into: all
// interleavings, breadth first, so that the way to a violation is a shortest one. It is for tests.
//
// A model is a set of first states and a function that says what can happen next. States are values
// that can be compared, best a small struct without pointers: two that are equal are one. What is
// explored is finite because the model bounds it (few clients, few messages, few faults); within
// these bounds nothing is left out.
//
// Two kinds of statement are checked. Check holds in every state ("at most one holder"). Goal can
// be reached from every state by quiet steps alone ("when faults end, the lock can become free").
//
// Not promised: anything about what lies beyond the bounds, nor that the model is like the thing
// that it models. The latter needs a test of its own that runs both side by side.
package model

import (
	"fmt"
	"strings"
)

// Model is what is explored. Start and Next are required.
type Model[S comparable] struct {
	Start []S
	// Next calls emit for each step that can be taken in s. It must do the same each time that it
	// is called, because the way to a violation is found by calling it again.
	Next func(s S, emit func(label string, next S))
	// Check returns what is wrong with a state, nil if nothing is.
	Check func(s S) error
	// Goal is what can be reached from every state by steps whose label is Quiet. Without Goal that
	// is not checked.
	Goal  func(s S) bool
	Quiet func(label string) bool
	// MaxStates ends an exploration that is larger than its author believed. Default 20 million.
	MaxStates int
}

// Report is what an exploration saw.
type Report[S comparable] struct {
	States      int           // that differ
	Transitions int           // steps taken from them
	Depth       int           // the most steps that a state is away from the start
	Violation   *Violation[S] // the first one met, nil if there is none
}

// Violation is a state that must not be, and a shortest way to it.
type Violation[S comparable] struct {
	Reason error
	Trace  []string // labels, from the first step to the last
	State  S
}

// String is the way in one line per step.
func (v *Violation[S]) String() string {
	return fmt.Sprintf("%v, after %d steps:\n  %s\n  %+v", v.Reason, len(v.Trace), strings.Join(v.Trace, "\n  "),
		v.State)
}

const maxStates = 20_000_000

// Explore visits every state of a model, or stops at the first violation. The error says that the
// model is larger than MaxStates; nothing is known then.
func Explore[S comparable](m Model[S]) (Report[S], error) {
	e := newExplorer(m)
	for _, s := range m.Start {
		e.see(s, -1)
	}
	for at := 0; at < len(e.states) && e.bad == nil; at++ {
		if len(e.states) > e.limit {
			return e.report, fmt.Errorf("more than %d states; choose smaller bounds", e.limit)
		}
		e.from = int32(at) //nolint:gosec // below MaxStates
		m.Next(e.states[at], e.step)
	}
	if e.bad == nil && m.Goal != nil {
		e.checkGoal()
	}
	e.report.States = len(e.states)
	e.report.Violation = e.bad
	return e.report, nil
}
