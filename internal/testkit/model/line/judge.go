package line

import "github.com/holdfast-go/holdfast/internal/testkit/model"

// Must are the promises of all models: what must never be. A model adds its own.
var Must model.Promises

// The promises that all kinds make.
var (
	ErrToken     = Must.Never("a token that is not greater than all before it")
	ErrAnothers  = Must.Never("a command changed what another owner has")
	ErrItself    = Must.Never("a client was refused because of its own earlier attempt")
	ErrPassed    = Must.Never("a grant went past a waiter that could have been told")
	ErrLostPlace = Must.Never("a place that counts was lost, or fell behind another")
	ErrDeaf      = Must.Never("a grant was handed to a client that cannot hear of it")
	ErrIdle      = Must.Never("something was left free although a waiter could have been told")
	ErrCut       = Must.Never("a client trusts a hold that the server does not know")
	ErrEndless   = Must.Never("a hold has no end")
	ErrTwice     = Must.Never("an owner has two places")
	ErrBoth      = Must.Never("an owner waits for what it has")
	ErrClaim     = Must.Never("a claim lasts longer than a claim")
	ErrLeft      = Must.Never("something is held for nobody, and nothing is on its way that would free it")
	ErrPlaceLeft = Must.Never("a place is kept for nobody, and nothing is on its way that would free it")
)

// JudgeToken judges the token of a grant.
func (l *Line) JudgeToken(token uint8) {
	l.to.Wrong.If(token <= l.to.Top, ErrToken)
	l.to.Top = max(l.to.Top, token)
}

// Present reports whether a client is known to be there because it asks for places, or polls.
func (l *Line) Present(r Request, c uint8) bool {
	return r.ID != 0 && (r.Place || r.Kind == Polls || r.Kind == Joins) && l.Of(r.ID) == c
}

// JudgeOrder judges a grant by a script: nobody in front of the owner could have been told, unless it
// left the queue by that script.
func (l *Line) JudgeOrder(before *Queue, owner uint8) {
	for _, p := range model.Under(before[:]) {
		if p.Owner == owner {
			return
		}
		now := l.store.Queue.At(p.Owner)
		l.to.Wrong.If(p.Left > 0 && now >= 0 && l.to.Up.Has(l.Of(p.Owner)) && !l.store.Queue[now].Stale, ErrPassed)
	}
}

// JudgePlaces judges a script: all stand as they stood, but for those that a rule names.
func (l *Line) JudgePlaces(before *Queue, gone func(owner uint8) bool) {
	at := 0
	for _, p := range before {
		if p.Owner == 0 || p.Left == 0 || gone(p.Owner) {
			continue
		}
		now := l.store.Queue.At(p.Owner)
		l.to.Wrong.If(now < at, ErrLostPlace)
		at = now
	}
}

// JudgeDeadlines finds a waiter that has lost its place although its client polls in time.
func (l *Line) JudgeDeadlines() {
	for _, p := range l.store.Queue {
		l.to.Wrong.If(p.Left == 0 && l.to.Waits(p.Owner), ErrLostPlace)
	}
}

// CheckQueue checks the queue of a state, where has reports whether an owner has what it could wait
// for.
func (l *Line) CheckQueue(b *model.Broken, s *State, q *Queue, has func(owner uint8) bool) {
	for i, p := range model.Under(q[:]) {
		b.If(q.At(p.Owner) < i, ErrTwice)
		b.If(has(p.Owner), ErrBoth)
		b.If(!l.CaredFor(s, p.Owner), ErrPlaceLeft)
	}
}

// CaredFor reports whether somebody will give back what an owner has: a process that lives and knows
// of it. For whom there is no process any more, a lease and a deadline are the ends.
func (l *Line) CaredFor(s *State, owner uint8) bool {
	if s.Crashed&(1<<(owner-1)) != 0 {
		return true
	}
	if w, gen := WaiterOf(owner); s.Waiters[w].Gen == gen && s.Waiters[w].Mode != Away {
		return true
	}
	for _, r := range s.Net {
		if r.ID == owner || r.Served.Has(owner) {
			return true
		}
	}
	for _, wr := range s.Waiters {
		if wr.Field == owner || wr.Served.Has(owner) {
			return true
		}
	}
	return false
}

// AtRest reports whether nobody holds, waits or does anything.
func (s *State) AtRest() bool {
	for _, wr := range s.Waiters {
		if wr.Mode != Away {
			return false
		}
	}
	return s.Net[0] == (Request{}) && s.Mail[0] == (Mail{})
}
