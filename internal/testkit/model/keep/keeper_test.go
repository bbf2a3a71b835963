package keep

import "github.com/holdfast-go/holdfast/lua"

// keeper is what A does.
func (m *keeping) keeper(s state, emit func(string, state)) {
	a := &s.a
	switch {
	case a.closed:
	case a.mode == idle && a.wishes > 0:
		n := s
		n.a.wishes--
		n.a.mode = asking
		n.send(acquire)
		emit(lWants, n)
	case a.mode == kept, a.mode == giving && m.off.has(overThen):
		m.adopt(s, emit)
	}
	switch a.mode {
	case holding:
		m.unlock(s, emit)
	case kept:
		n := s
		n.give(m)
		emit(lIdle, n)
		if a.trust == 0 {
			n = s
			n.finish(m, true)
			emit(lLost, n)
		}
	}
	if a.closed || s.closes == 0 {
		return
	}
	n := s
	n.closes--
	n.a.closed = true
	switch a.mode {
	case kept, holding:
		n.a.mode = kept
		n.give(m)
	case asking:
		n.finish(m, true)
	}
	emit(lCloses, n)
}

// adopt is a Lock of A that takes the lock from A.
func (m *keeping) adopt(s state, emit func(string, state)) {
	a := &s.a
	if a.wishes == 0 || a.next > a.last || a.trust*2 <= m.lease && !m.off.has(trusted) {
		return
	}
	a.wishes--
	a.mode = holding
	if a.trust == 0 {
		s.wrong |= stale
	}
	s.gets(a.next)
	a.next++
	emit(lAdopts, s)
}

// unlock ends the last hold of A.
func (m *keeping) unlock(s state, emit func(string, state)) {
	a := &s.a
	half := a.trust*2 > m.lease
	if half && m.mayKeep(a) && (a.next <= a.last && a.next != 0 || m.off.has(asks)) {
		s.a.mode = kept
		emit(lKeeps, s)
		return
	}
	if half && a.hears && !a.wanted || half && m.off.has(asksHearing) && !a.wanted {
		n := s
		n.a.mode = passing
		n.a.sure, n.a.gap, n.a.first = false, false, a.hears
		n.a.wanted = false
		n.send(pass)
		emit(lPasses, n)
		return
	}
	s.a.mode = leaving
	s.a.trust = 0
	s.send(release)
	emit(lUnlocks, s)
}

// mayKeep reports whether A keeps the lock without asking.
func (m *keeping) mayKeep(a *keeper) bool {
	if m.off.has(asks) {
		return !a.wanted
	}
	return a.sure && !a.wanted && (a.hears || m.off.has(asksHearing)) &&
		(!a.gap || m.off.has(gaps)) && (a.first || m.off.has(asksHearing))
}

// give begins to give a kept lock back.
func (s *state) give(m *keeping) {
	if s.a.mode = giving; !m.off.has(overThen) {
		s.a.trust = 0
	}
	s.send(release)
}

func (s *state) send(kind uint8) {
	s.a.op, s.a.at, s.a.age, s.a.again = request{kind, s.a.id()}, sent, 0, false
}

// gets notes the token of a new holder.
func (s *state) gets(token uint8) {
	if token <= s.top && !s.forced {
		s.wrong |= smallToken
	}
	s.top = max(s.top, token)
}

// finish ends A's tenure. What may stand of it is undone.
func (s *state) finish(m *keeping, undo bool) {
	a := &s.a
	if undo {
		s.undo = a.id()
	}
	gen := a.gen
	if !m.off.has(freshID) {
		gen++
	}
	*a = keeper{gen: gen, wishes: a.wishes, closed: a.closed}
}

// answers are A's command at the server, and the answer to it.
func (m *keeping) answers(s state, emit func(string, state)) {
	a := &s.a
	switch a.at {
	case none:
		return
	case sent:
		r := m.run(&s, a.op, a.again)
		a.at = map[lua.Status]uint8{lua.Done: done, lua.Denied: denied, lua.Gone: gone}[r.status]
		a.lo, a.hi = r.lo, r.hi
		emit(lServer, s)
		return
	}
	at, again, left := a.at, a.again, m.lease-1-min(a.age, m.lease-1)
	a.at, a.age, a.again = none, 0, false
	switch a.mode {
	case asking:
		switch {
		case at == denied, a.closed:
			s.finish(m, again || a.closed)
		case left == 0:
			s.finish(m, true)
		default:
			a.mode, a.trust, a.next, a.last = holding, left, a.lo+1, a.hi
			s.gets(a.lo)
		}
	case passing:
		m.passed(&s, at, again, left)
	default:
		s.finish(m, again)
	}
	s.a.lo, s.a.hi = 0, 0
	emit(lAnswer, s)
}

// passed is what A makes of the answer to who listens.
func (m *keeping) passed(s *state, at uint8, again bool, left uint8) {
	a := &s.a
	if at != done {
		s.finish(m, again)
		return
	}
	a.trust, a.next, a.last, a.sure = max(a.trust, left), a.lo, a.hi, true
	if m.off.has(wantedFirst) {
		a.wanted = false
	}
	if again && !m.off.has(strayPass) || !m.mayKeep(a) || a.closed || a.trust*2 <= m.lease {
		a.mode, a.trust = leaving, 0
		s.send(release)
		return
	}
	a.mode = kept
}

// hearing is what becomes of A's mailbox.
func (m *keeping) hearing(s state, emit func(string, state)) {
	a := &s.a
	switch {
	case a.box == off && (a.mode == holding || a.mode == passing || a.mode == kept):
		n := s
		n.a.box = on
		emit(lMailbox, n)
	case a.box == on:
		n := s
		n.a.box = heard
		n.look(m, true)
		emit(lHears, n)
	case a.box == broken:
		n := s
		n.a.box = off
		n.look(m, false)
		emit(lNotices, n)
	}
	if a.box == heard && a.calls > 0 {
		n := s
		n.a.calls = 0
		n.heard(m, false)
		emit(lCalled, n)
		if s.silent > 0 {
			n = s
			n.silent--
			n.a.calls = 0
			emit(lSilent, n)
		}
	}
	if s.breaks > 0 && (a.box == on || a.box == heard) {
		n := s
		n.breaks--
		n.a.box, n.a.calls = broken, 0
		emit(lBreaks, n)
	}
}

// look is that calls may have been missed, or arrive from now on.
func (s *state) look(m *keeping, confirmed bool) {
	s.a.hears, s.a.gap = confirmed, true
	if s.a.mode == kept && m.off.has(gaps|asksHearing) {
		return
	}
	s.heard(m, true)
}

// heard is a call, or that one may have been missed.
func (s *state) heard(m *keeping, missed bool) {
	switch {
	case s.a.mode == kept && !m.off.has(givesBack):
		s.give(m)
	case !missed && s.a.mode != giving && s.a.mode != leaving:
		s.a.wanted = true
	}
}
