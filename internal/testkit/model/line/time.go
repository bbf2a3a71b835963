package line

import (
	"math/bits"
	"slices"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
)

// The promises that all kinds make.
var (
	ErrPassed    = model.Must.Never("a grant went past a waiter that could have been told")
	ErrLostPlace = model.Must.Never("a place that counts was lost, or fell behind another")
	ErrDeaf      = model.Must.Never("a grant was handed to a client that cannot hear of it")
	ErrIdle      = model.Must.Never("something was left free although a waiter could have been told")
	ErrEndless   = model.Must.Never("a hold has no end")
	ErrTwice     = model.Must.Never("an owner has two places")
	ErrBoth      = model.Must.Never("an owner waits for what it has")
	ErrClaim     = model.Must.Never("a claim lasts longer than a claim")
	ErrLeft      = model.Must.Never("something is held for nobody, and nothing is on its way that would free it")
	ErrPlaceLeft = model.Must.Never("a place is kept for nobody, and nothing is on its way that would free it")
)

// JudgeToken judges the token of a grant.
func (l *Line) JudgeToken(token uint8) {
	l.to.Wrong.If(token <= l.to.Top, model.ErrToken)
	l.to.Top = max(l.to.Top, token)
}

// Present reports whether a client is known to be there because it asks for places, or polls.
func (l *Line) Present(r Request, c uint8) bool {
	return r.ID != 0 && (r.Place || r.Kind == Polls || r.Kind == Joins) && l.Of(r.ID) == c
}

// JudgeOrder judges a script's grant: nobody in front of the owner could have been told, unless that script removed it.
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

// CheckQueue checks the queue of a state, where has reports whether an owner has what it could wait for.
func (l *Line) CheckQueue(b *model.Broken, s *State, q *Queue, has func(owner uint8) bool) {
	for i, p := range model.Under(q[:]) {
		b.If(q.At(p.Owner) < i, ErrTwice)
		b.If(has(p.Owner), ErrBoth)
		b.If(!l.CaredFor(s, p.Owner), ErrPlaceLeft)
	}
}

// CaredFor reports whether a live process knows what an owner has, and gives it back. A dead one has leases and deadlines.
func (l *Line) CaredFor(s *State, owner uint8) bool {
	if s.Crashed&(1<<(owner-1)) != 0 {
		return true
	}
	if w, gen := WaiterOf(owner); s.Waiters[w].Gen == gen && s.Waiters[w].Mode != Away {
		return true
	}
	return slices.ContainsFunc(s.Net[:], func(r Request) bool { return r.ID == owner || r.Served.Has(owner) }) ||
		slices.ContainsFunc(s.Waiters[:], func(wr Waiter) bool { return wr.Field == owner || wr.Served.Has(owner) })
}

// AtRest reports whether nobody holds, waits or does anything.
func (s *State) AtRest() bool {
	busy := slices.ContainsFunc(s.Waiters[:], func(wr Waiter) bool { return wr.Mode != Away })
	return !busy && s.Net[0] == (Request{}) && s.Mail[0] == (Mail{})
}

// time is a tick of all clocks, and what can happen to the server as a whole.
func (l *Line) time() {
	n := l.Begin()
	l.server.Tick()
	l.netTick()
	l.mailTick()
	for w := range l.Waiters {
		l.waiterTick(w)
	}
	for c := range l.Clients {
		n.Due.Put(c, l.waited(n, c) && !n.Dead.Has(c))
	}
	if !l.Prompt || !l.overdue() {
		l.Quiet(0, "time passes")
	}
	if l.Begin(); l.store.Queue.Over() {
		l.server.EndQueue()
		l.Quiet(0, "the queue's keys end")
	}
	if l.from.Losses == 0 {
		return
	}
	l.Begin().Losses--
	l.server.Lose()
	l.Loud(0, "the server loses its keys")
	if l.Harmed < l.Clients {
		return // mailboxes that break have scenarios of their own
	}
	l.Begin().Losses--
	l.server.Lose()
	for c := range l.Clients { // it was restarted
		l.unsubscribe(c)
	}
	l.Loud(0, "the server restarts without its keys")
}

// overdue reports whether somebody has to do something before time may pass.
func (l *Line) overdue() bool {
	s := l.from
	for c := range l.Clients {
		if !l.awake(c) {
			continue
		}
		waited := l.waited(s, c)
		if s.Due.Has(c) && waited && !l.Off.Has(PollAtAll) {
			return true
		}
		if l.Listening && (s.Known.Has(c) && !s.Up.Has(c) || !s.Known.Has(c) && waited) {
			return true
		}
	}
	for w := range l.Waiters {
		if wr := &s.Waiters[w]; (wr.Wake || wr.Granted != 0) && !s.Paused.Has(l.Home[w]) {
			return true
		}
	}
	return false
}

// mailTick ends messages in time: after its claim one only wakes, as the poll does. It waits for a process that stands still.
func (l *Line) mailTick() {
	for i := range l.to.Mail {
		m := &l.to.Mail[i]
		if *m != (Mail{}) && m.Left == 0 && !l.to.Paused.Has(l.Of(m.Owner)) {
			l.not = true
		}
		model.Less(&m.Left)
	}
}

// waiterTick ends what is trusted no more. A process that stands still finds that out when it goes on.
func (l *Line) waiterTick(w uint8) {
	wr := &l.to.Waiters[w]
	model.Less(&wr.Lasts)
	model.Less(&wr.Renewed)
	if model.Less(&wr.Stands); wr.Stands == 0 {
		wr.Handed = 0
		if wr.Mode != Has {
			wr.Run = Run{}
		}
	}
	if wr.Mode == Has && !l.Off.Has(TrustEnds) && model.Less(&wr.Trust) && !l.to.Paused.Has(l.Home[w]) {
		l.undone(w, true)
	}
}

// netTick makes what is late aged, ends the lives of other stragglers, and the pauses of undos.
func (l *Line) netTick() {
	model.Change(l.to.Net[:], func(r Request) (Request, bool) {
		switch {
		case r.Kind == Undoer && r.Step == model.UndoPause && !l.to.Paused.Has(l.Of(r.ID)):
			r.Step++
		case r.Kind == Acquire:
			r.Step = model.Aged
		}
		return r, r.Kind == Acquire || r.background()
	})
}

// forget takes out messages of grants that nobody will look at, so that they do not make more states.
func (l *Line) forget() {
	again := !l.NewOwners || l.Off.Has(FreshOwner) // an owner id is used for what its waiter wants next
	model.Change(l.to.Mail[:], func(m Mail) (Mail, bool) {
		w, gen := WaiterOf(m.Owner)
		wr := &l.to.Waiters[w]
		return m, wr.Gen == gen && (again && wr.Wishes > 0 || wr.Mode != Away && wr.Mode != Has)
	})
}

// compact renumbers the tokens, as small as can be, in order: else claims that end unheard would make states without an end.
func (l *Line) compact() {
	s := l.to
	l.store.Clock = s.Top + 1 // later than all grants
	seen := s.tokens() | 1<<l.store.Token
	if seen&(seen+1) == 0 {
		return // no number is free
	}
	less := func(t *uint8) { *t = uint8(bits.OnesCount64(seen & (1<<*t - 1))) } //nolint:gosec // below 64
	less(&l.store.Token)
	less(&s.Top)
	for i := range s.Waiters {
		wr := &s.Waiters[i]
		less(&wr.Handed)
		less(&wr.Granted)
		less(&wr.Token)
	}
	for i := range s.Mail {
		less(&s.Mail[i].Token)
	}
	l.store.Clock = s.Top + 1
}

// tokens are all that somebody knows, one bit for each number.
func (s *State) tokens() uint64 {
	seen := uint64(1) | 1<<s.Top
	for i := range s.Waiters {
		wr := &s.Waiters[i]
		seen |= 1<<wr.Handed | 1<<wr.Granted | 1<<wr.Token
		if wr.Handed != 0 {
			seen |= reserved(wr.Handed, wr.Run)
		} else if wr.Mode == Has {
			seen |= reserved(wr.Token, wr.Run)
		}
	}
	for i := range s.Mail {
		seen |= 1<<s.Mail[i].Token | reserved(s.Mail[i].Token, s.Mail[i].Run)
	}
	return seen
}

// reserved are the tokens of those behind the holder of one in a run.
func reserved(token uint8, r Run) (seen uint64) {
	for i := range r.Size() {
		seen |= 1 << (token + 1 + i)
	}
	return seen
}
