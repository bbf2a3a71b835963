package line

import "math/bits"

// time is a tick of all clocks, and what can happen to the server as a whole.
func (l *Line) time() {
	n := l.Begin()
	l.Kind.Tick()
	l.netTick()
	ok := l.mailTick()
	for w := range l.Waiters {
		ok = ok && l.waiterTick(w)
	}
	for c := range l.Clients {
		n.Due.Put(c, l.waited(n, c) && !n.Dead.Has(c))
	}
	if ok && !(l.Prompt && l.overdue()) {
		l.Step(tick)
	}
	if l.Begin(); l.Kind.EndQueue() {
		l.Step(ends)
	}
	if l.From.Losses == 0 {
		return
	}
	l.Begin().Losses--
	l.Kind.Lose()
	l.Step(lost)
	if l.Harmed < l.Clients {
		return // mailboxes that break have scenarios of their own
	}
	l.Begin().Losses--
	l.Kind.Lose()
	for c := range l.Clients { // it was restarted
		l.unsubscribe(c)
	}
	l.Step(restart)
}

// overdue reports whether somebody has to do something before time may pass.
func (l *Line) overdue() bool {
	s := l.From
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

// mailTick is false if a message would be on its way for too long: one that is later than its claim
// only wakes somebody, and so does the poll. It waits for a process that stands still.
func (l *Line) mailTick() bool {
	for i := range l.To.Mail {
		m := &l.To.Mail[i]
		if *m != (Mail{}) && m.Left == 0 && !l.To.Paused.Has(l.Of(m.Owner)) {
			return false
		}
		Less(&m.Left)
	}
	return true
}

// waiterTick ends what is trusted no more. A process that stands still finds that out when it goes
// on.
func (l *Line) waiterTick(w uint8) bool {
	wr := &l.To.Waiters[w]
	Less(&wr.Lasts)
	Less(&wr.Renewed)
	if Less(&wr.Stands); wr.Stands == 0 {
		wr.Handed = 0
		if wr.Mode != Has {
			wr.Run = Run{}
		}
	}
	if wr.Mode != Has || wr.Trust == 0 || l.Off.Has(TrustEnds) {
		return true
	}
	wr.Trust--
	if wr.Trust > 0 || l.To.Paused.Has(l.Home[w]) {
		return true
	}
	return l.undone(w, true)
}

// netTick makes what is late aged, ends the lives of other stragglers, and the pauses of undos.
func (l *Line) netTick() {
	old := l.To.Net
	l.To.Net = [maxRequests]Request{}
	for _, r := range old {
		switch {
		case r == (Request{}):
			return
		case r.Kind == Undoer && r.Step == undoPause && !l.To.Paused.Has(l.Of(r.ID)):
			r.Step++
		case r.Kind == Acquire:
			r.Step = aged
		case !r.background():
			continue
		}
		_ = l.To.send(r)
	}
}

// forget takes out messages of grants that nobody will look at, so that they do not make more
// states.
func (l *Line) forget() {
	again := !l.NewOwners || l.Off.Has(FreshOwner) // an owner id is used for what its waiter wants next
	l.To.unpost(func(m Mail) bool {
		w, gen := WaiterOf(m.Owner)
		wr := &l.To.Waiters[w]
		return wr.Gen != gen || !(again && wr.Wishes > 0) && (wr.Mode == Away || wr.Mode == Has)
	})
}

// compact gives the tokens new numbers, as small as can be and in the same order: no more than that
// is ever looked at. Else claims that end unheard would make states without an end.
func (l *Line) compact() {
	s := l.To
	last, clock := l.Kind.Tokens()
	*clock = s.Top + 1 // later than all grants
	seen := s.tokens() | 1<<*last
	if seen&(seen+1) == 0 {
		return // no number is free
	}
	less := func(t *uint8) { *t = uint8(bits.OnesCount64(seen & (1<<*t - 1))) } //nolint:gosec // below 64
	less(last)
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
	*clock = s.Top + 1
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
