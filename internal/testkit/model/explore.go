package model

import "errors"

// ErrStuck is the reason of a violation of Goal.
var ErrStuck = errors.New("the goal cannot be reached from here by quiet steps")

// explorer is one exploration under way. States are numbered in the order in which they were first
// seen, which is the order of their distance from the start.
type explorer[S comparable] struct {
	model  Model[S]
	limit  int
	number map[S]int32
	states []S
	parent []int32 // by which state each was first reached; -1: a first state
	depth  []int32
	quiet  [][2]int32 // quiet steps, for Goal
	from   int32      // the state whose steps are taken
	step   func(label string, next S)
	bad    *Violation[S]
	report Report[S]
}

func newExplorer[S comparable](m Model[S]) *explorer[S] {
	e := &explorer[S]{model: m, limit: m.MaxStates, number: map[S]int32{}}
	if e.limit <= 0 {
		e.limit = maxStates
	}
	e.step = func(label string, next S) {
		if e.bad != nil {
			return
		}
		e.report.Transitions++
		to := e.see(next, e.from)
		if e.model.Goal != nil && e.model.Quiet(label) {
			e.quiet = append(e.quiet, [2]int32{e.from, to})
		}
	}
	return e
}

// see gives a state its number, and checks it the first time.
func (e *explorer[S]) see(s S, parent int32) int32 {
	if n, known := e.number[s]; known {
		return n
	}
	n := int32(len(e.states)) //nolint:gosec // below MaxStates
	e.number[s] = n
	e.states = append(e.states, s)
	e.parent = append(e.parent, parent)
	depth := int32(0)
	if parent >= 0 {
		depth = e.depth[parent] + 1
	}
	e.depth = append(e.depth, depth)
	e.report.Depth = max(e.report.Depth, int(depth))
	if e.model.Check != nil {
		if err := e.model.Check(s); err != nil {
			e.bad = e.violation(n, err)
		}
	}
	return n
}

// violation finds the way to a state by taking the steps of its ancestors once more. Labels are not
// stored, for there are many times more of them than are ever read.
func (e *explorer[S]) violation(n int32, reason error) *Violation[S] {
	v := &Violation[S]{Reason: reason, State: e.states[n]}
	for ; e.parent[n] >= 0; n = e.parent[n] {
		want, found := e.states[n], ""
		e.model.Next(e.states[e.parent[n]], func(label string, next S) {
			if found == "" && next == want {
				found = label
			}
		})
		v.Trace = append([]string{found}, v.Trace...)
	}
	return v
}

// checkGoal walks the quiet steps backwards from all states of the goal. What it does not meet is
// stuck; the one of those that is nearest to the start is reported.
func (e *explorer[S]) checkGoal() {
	first, next := e.backwards()
	reached := make([]bool, len(e.states))
	var todo []int32
	for i, s := range e.states {
		if e.model.Goal(s) {
			reached[i] = true
			todo = append(todo, int32(i)) //nolint:gosec // below MaxStates
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
			e.bad = e.violation(int32(i), ErrStuck) //nolint:gosec // below MaxStates
			return
		}
	}
}

// backwards chains the quiet steps by where they lead to: first[state] is one of them, next[step]
// another to the same.
func (e *explorer[S]) backwards() (first, next []int) {
	first, next = make([]int, len(e.states)), make([]int, len(e.quiet))
	for i := range first {
		first[i] = -1
	}
	for i, edge := range e.quiet {
		next[i] = first[edge[1]]
		first[edge[1]] = i
	}
	return first, next
}
