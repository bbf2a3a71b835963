// Package model explores every state that a small model of a protocol can reach. It visits all interleavings, breadth first, so
// the trace of a violation is a shortest one. It is for tests, and contains what the models in the folders below share:
//
//   - model.go: the explorer, and the steps that it takes;
//   - scenario.go: the promises of a model; running it within bounds, and without each of its defences;
//   - network.go: messages under way, and time.
//
// Package fidelity runs the server half of a model beside the real scripts. Package server is the
// server half that four models share.
//
// A model is a first state and a function that takes the possible steps of a state. A state is a value that can be compared,
// best a small struct without pointers; equal states are one state. A model bounds the number of clients, messages and faults,
// so it has finitely many states. Within these bounds the explorer leaves nothing out.
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
	"hash/maphash"
	"strings"
)

// Model is what the explorer explores. Start and Next are required.
type Model[S comparable] struct {
	Start S
	// Next takes each step that is possible in s, the same ones in each call: a trace is found by calling it again.
	Next func(s S, out *Steps[S])
	// Settle clears what no later step depends on, so that states which differ only in that become equal. The explorer calls it
	// for the state after each step. If it returns false, the bounds have no room for that state, and the step is not taken.
	Settle func(s *S) bool
	// Check returns the promise that a state breaks, or nil.
	Check func(s *S) error
	// Goal reports whether a state is one that quiet steps must be able to reach from every state. Nil: not checked.
	Goal func(s *S) bool
	// Only is the violation that a control looks for; nil: any. Unless it is ErrStuck, Goal is off. See [Promises.First].
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

// Explore visits every state or stops at the first violation. With more states than MaxStates it returns only an error.
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

// explorer is one exploration under way. States have numbers in the order first seen: that of distance from the start.
type explorer[S comparable] struct {
	model  Model[S]
	states store[S]
	parent []int32    // by which state each was first reached; -1: the first state
	quiet  [][2]int32 // quiet steps, for Goal
	from   int32      // the state whose steps are taken
	out    Steps[S]
	report Report
}

func newExplorer[S comparable](m Model[S]) *explorer[S] {
	e := &explorer[S]{model: m, states: newStore[S]()}
	e.out = Steps[S]{settle: m.Settle, take: e.take}
	return e
}

// run visits the states level by level: those of a level are one step further from the start than those of the level before.
func (e *explorer[S]) run() error {
	e.see(&e.model.Start, -1)
	level := e.states.size
	for at := 0; at < e.states.size && e.report.Violation == nil; at++ {
		if e.states.size > e.model.MaxStates {
			return fmt.Errorf("more than %d states; choose smaller bounds", e.model.MaxStates)
		}
		if at == level {
			level = e.states.size
			e.report.Depth++
		}
		e.from = int32(at) //nolint:gosec // below MaxStates
		e.model.Next(*e.states.at(e.from), &e.out)
	}
	if e.states.size > level {
		e.report.Depth++ // a violation was met among the states of the next level
	}
	if e.report.Violation == nil && e.model.Goal != nil {
		e.checkGoal()
	}
	e.report.States = e.states.size
	return nil
}

// take takes a step to the state in e.out.
func (e *explorer[S]) take(_ int, _ string, quiet bool) {
	if e.report.Violation != nil {
		return
	}
	e.report.Transitions++
	to := e.see(&e.out.to, e.from)
	if quiet && e.model.Goal != nil {
		e.quiet = append(e.quiet, [2]int32{e.from, to})
	}
}

// see gives a state its number, and checks it the first time.
func (e *explorer[S]) see(s *S, parent int32) int32 {
	n, first := e.states.put(s)
	if !first {
		return n
	}
	e.parent = append(e.parent, parent)
	if e.model.Check != nil {
		if err := e.model.Check(s); err != nil {
			e.report.Violation = e.violation(n, err)
		}
	}
	return n
}

// violation finds the way to a state by its ancestors' steps once more: labels are too many to store for how few are read.
func (e *explorer[S]) violation(n int32, reason error) *Violation {
	v := &Violation{Reason: reason, State: *e.states.at(n)}
	for ; e.parent[n] >= 0; n = e.parent[n] {
		found := ""
		again := Steps[S]{settle: e.model.Settle}
		again.take = func(who int, what string, _ bool) {
			if found == "" && again.to == *e.states.at(n) {
				found = label(who, what)
			}
		}
		e.model.Next(*e.states.at(e.parent[n]), &again)
		v.Trace = append([]string{found}, v.Trace...)
	}
	return v
}

// checkGoal walks quiet steps back from the goal's states. Of what it does not meet, it reports the one nearest to the start.
func (e *explorer[S]) checkGoal() {
	first, next := e.backwards()
	reached := make([]bool, e.states.size)
	var todo []int32
	for i := range int32(e.states.size) { //nolint:gosec // below MaxStates
		if e.model.Goal(e.states.at(i)) {
			reached[i] = true
			todo = append(todo, i)
		}
	}
	for len(todo) > 0 {
		to := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for edge := first[to]; edge >= 0; edge = next[edge] {
			if from := e.quiet[edge][0]; !reached[from] {
				reached[from] = true
				todo = append(todo, from)
			}
		}
	}
	for i, ok := range reached {
		if !ok {
			e.report.Violation = e.violation(int32(i), ErrStuck) //nolint:gosec // below MaxStates
			return
		}
	}
}

// backwards chains the quiet steps by where they lead to: first[state] is one of them, next[step] another to the same.
func (e *explorer[S]) backwards() (first, next []int32) {
	first, next = make([]int32, e.states.size), make([]int32, len(e.quiet))
	for i := range first {
		first[i] = -1
	}
	for i, edge := range e.quiet {
		next[i] = first[edge[1]]
		first[edge[1]] = int32(i) //nolint:gosec // below 2^31: each takes eight bytes
	}
	return first, next
}

// store numbers states in the order first seen. It keeps each once, in pieces that never move. (Rejected: a map to numbers
// beside a list, which keeps each state twice and moves all of them whenever it grows.)
type store[S comparable] struct {
	seed   maphash.Seed
	pieces [][]S
	slots  []slot // open addressing; at least half are empty
	size   int
}

// slot holds half of a state's hash, and the state's number plus 1; number 0: the slot is empty.
type slot struct{ hash, number uint32 }

const (
	pieceBits  = 10
	firstSlots = 1 << 12
)

func newStore[S comparable]() store[S] {
	return store[S]{seed: maphash.MakeSeed(), slots: make([]slot, firstSlots)}
}

// at returns the state with a number.
func (t *store[S]) at(n int32) *S { return &t.pieces[n>>pieceBits][n&(1<<pieceBits-1)] }

// put returns the number of a state, and whether the state is new.
func (t *store[S]) put(s *S) (number int32, first bool) {
	hash := uint32(maphash.Comparable(t.seed, *s) >> 32) //nolint:gosec // half of it
	i := t.find(hash)
	for ; t.slots[i].number != 0; i = (i + 1) & t.mask() {
		n := int32(t.slots[i].number - 1) //nolint:gosec // below MaxStates
		if t.slots[i].hash == hash && *t.at(n) == *s {
			return n, false
		}
	}
	if t.size&(1<<pieceBits-1) == 0 {
		t.pieces = append(t.pieces, make([]S, 0, 1<<pieceBits))
	}
	last := &t.pieces[len(t.pieces)-1]
	*last = append(*last, *s)
	t.size++
	t.slots[i] = slot{hash, uint32(t.size)} //nolint:gosec // below MaxStates
	if 2*t.size > len(t.slots) {
		t.grow()
	}
	return int32(t.size - 1), true //nolint:gosec // below MaxStates
}

func (t *store[S]) mask() uint32 { return uint32(len(t.slots) - 1) } //nolint:gosec // twice MaxStates at most

// find returns the first slot in which a state of that hash may be.
func (t *store[S]) find(hash uint32) uint32 { return hash & t.mask() }

// grow doubles the slots.
func (t *store[S]) grow() {
	old := t.slots
	t.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if s.number == 0 {
			continue
		}
		i := t.find(s.hash)
		for t.slots[i].number != 0 {
			i = (i + 1) & t.mask()
		}
		t.slots[i] = s
	}
}
