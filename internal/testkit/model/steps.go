package model

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
