package model

// Promises are what a model promises: a list of what must never be.
//
//	var (
//		must     model.Promises
//		errTwo   = must.Never("two clients trust their holds")
//		errToken = must.Never("a token that is not greater than all before it")
//	)
type Promises struct{ all []*Promise }

// Promise is one of them. As an error it is the reason of a violation.
type Promise struct {
	broken Broken
	text   string
}

// Broken is a set of promises that are broken. A state holds it for those that only the step could
// tell that led there.
type Broken uint32

// Never adds a promise: what must never be.
func (p *Promises) Never(text string) *Promise {
	if len(p.all) == 32 {
		panic("more promises than bits")
	}
	one := &Promise{1 << len(p.all), text}
	p.all = append(p.all, one)
	return one
}

// Error is what must never be.
func (p *Promise) Error() string { return p.text }

// If breaks a promise if what must never be is so.
func (b *Broken) If(is bool, p *Promise) {
	if is {
		*b |= p.broken
	}
}

// Add breaks a promise.
func (b *Broken) Add(p *Promise) { *b |= p.broken }

// First is the first promise that is broken, nil if none is. If only is not nil, others do not count:
// a control that looks for one violation is not stopped by another.
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

// Only leaves one promise, for a model in which there are no others.
func (b Broken) Only(p *Promise) Broken { return b & p.broken }
