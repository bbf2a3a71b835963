package model

import "fmt"

// explorer is one exploration under way. States are numbered in the order in which they were first
// seen, which is the order of their distance from the start.
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

// run visits the states level by level: those of a level are one step further from the start than
// those of the level before.
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

// violation finds the way to a state by taking the steps of its ancestors once more. Labels are not
// stored, for there are many times more of them than are ever read.
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

// checkGoal walks the quiet steps backwards from all states of the goal. What it does not meet is
// stuck; the one of those that is nearest to the start is reported.
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

// backwards chains the quiet steps by where they lead to: first[state] is one of them, next[step]
// another to the same.
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
