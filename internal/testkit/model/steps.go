package model

// Steps takes the steps that can be taken from a state. A label is who does something and what that
// is: a letter such as 'A' for a client, 0 where it is nobody's, and a text that is a constant,
// because nearly no label is ever read.
//
// A step is quiet if it may be counted upon: an answer that comes, time that passes, an unlock. It is
// loud if it is a fault, or something that somebody may as well not do. Goals are reached by quiet
// steps.
type Steps[S comparable] struct {
	settle func(*S) bool
	to     S // where the step leads that is taken
	take   func(who int, what string, quiet bool)
}

// Quiet takes a step that may be counted upon.
func (o *Steps[S]) Quiet(who int, what string, next S) { o.Step(who, what, true, next) }

// Loud takes a step that may not.
func (o *Steps[S]) Loud(who int, what string, next S) { o.Step(who, what, false, next) }

// Step takes a step that is quiet in some scenarios.
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
