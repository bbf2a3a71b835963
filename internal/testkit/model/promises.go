package model

// Promises lists what a model promises never to happen:
//
//	var (
//		must     model.Promises
//		errTwo   = must.Never("two clients trust their holds")
//		errToken = must.Never("a token that is not greater than all before it")
//	)
type Promises struct{ all []*Promise }

// Promise is one promise. As an error it is the reason of a violation.
type Promise struct {
	broken Broken
	text   string
}

// Broken is a set of broken promises. A state contains one for the promises that can be judged only while
// a step is taken, not by looking at the state after it.
type Broken uint32

// Never adds a promise. The text says what must never happen.
func (p *Promises) Never(text string) *Promise {
	if len(p.all) == 32 {
		panic("more promises than bits")
	}
	one := &Promise{1 << len(p.all), text}
	p.all = append(p.all, one)
	return one
}

// Error says what must never happen.
func (p *Promise) Error() string { return p.text }

// If adds a promise to the set if a condition holds.
func (b *Broken) If(is bool, p *Promise) {
	if is {
		*b |= p.broken
	}
}

// Add adds a promise to the set.
func (b *Broken) Add(p *Promise) { *b |= p.broken }

// First returns the first broken promise, or nil. If only is not nil, it ignores all others: another
// violation must not stop a control before it finds the one that it looks for.
func (p *Promises) First(b Broken, only error) error {
	if b == 0 {
		return nil
	}
	for _, one := range p.all {
		if b&one.broken != 0 && (only == nil || only == error(one)) { //nolint:errorlint // nobody wraps them
			return one
		}
	}
	return nil
}

// Only returns the set without all promises but one, for scenarios that promise nothing else.
func (b Broken) Only(p *Promise) Broken { return b & p.broken }
