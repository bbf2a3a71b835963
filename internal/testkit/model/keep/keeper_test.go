package keep

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

// keeper is what A does.
func (m *keeping) keeper(s state, out *steps) {
	a := &s.a
	switch {
	case a.closed:
	case a.mode == idle && a.wishes > 0:
		n := s
		n.a.wishes--
		n.a.mode = asking
		n.send(acquire)
		out.Loud('A', "wants the lock, and asks", n)
	case a.mode == kept, a.mode == giving && m.off.Has(overThen):
		m.adopt(s, out)
	}
	switch a.mode {
	case holding:
		m.unlock(s, out)
	case kept:
		n := s
		n.give(m)
		out.Step('A', "it was idle for too long", m.expires && !m.off.Has(idleEnds), n)
		if a.trust == 0 {
			n = s
			n.finish(m, true)
			out.Loud('A', "a kept lock is lost", n)
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
	out.Loud('A', "is closed", n)
}

// adopt is a Lock of A that takes the lock from A.
func (m *keeping) adopt(s state, out *steps) {
	a := &s.a
	if a.wishes == 0 || a.next > a.last || a.trust*2 <= m.lease && !m.off.Has(trusted) {
		return
	}
	a.wishes--
	a.mode = holding
	s.wrong.If(a.trust == 0, errStale)
	s.gets(a.next)
	a.next++
	out.Loud('A', "wants the lock, and takes it from itself", s)
}

// unlock ends the last hold of A.
func (m *keeping) unlock(s state, out *steps) {
	a := &s.a
	half := a.trust*2 > m.lease
	if half && m.mayKeep(a) && (a.next <= a.last && a.next != 0 || m.off.Has(asks)) {
		s.a.mode = kept
		out.Quiet('A', "unlocks and keeps it", s)
		return
	}
	if half && a.hears && !a.wanted || half && m.off.Has(asksHearing) && !a.wanted {
		n := s
		n.a.mode = passing
		n.a.sure, n.a.gap, n.a.first = false, false, a.hears
		n.a.wanted = false
		n.send(pass)
		out.Quiet('A', "unlocks and asks who listens", n)
		return
	}
	s.a.mode = leaving
	s.a.trust = 0
	s.send(release)
	out.Quiet('A', "unlocks and releases", s)
}

// mayKeep reports whether A keeps the lock without asking.
func (m *keeping) mayKeep(a *keeper) bool {
	if m.off.Has(asks) {
		return !a.wanted
	}
	return a.sure && !a.wanted && (a.hears || m.off.Has(asksHearing)) &&
		(!a.gap || m.off.Has(gaps)) && (a.first || m.off.Has(asksHearing))
}

// give begins to give a kept lock back.
func (s *state) give(m *keeping) {
	if s.a.mode = giving; !m.off.Has(overThen) {
		s.a.trust = 0
	}
	s.send(release)
}

func (s *state) send(kind uint8) {
	s.a.op, s.a.at, s.a.age, s.a.again = request{kind, s.a.id()}, server.Sent, 0, false
}

// gets notes the token of a new holder.
func (s *state) gets(token uint8) {
	s.wrong.If(token <= s.top && !s.forced, model.ErrToken)
	s.top = max(s.top, token)
}

// finish ends A's tenure. What may stand of it is undone.
func (s *state) finish(m *keeping, undo bool) {
	a := &s.a
	if undo {
		s.undo = a.id()
	}
	gen := a.gen
	if !m.off.Has(freshID) {
		gen++
	}
	*a = keeper{gen: gen, wishes: a.wishes, closed: a.closed}
}

// answers are A's command at the server, and the answer to it.
func (m *keeping) answers(s state, out *steps) {
	a := &s.a
	switch a.at {
	case server.None:
		return
	case server.Sent:
		r := m.run(&s, a.op, a.again)
		a.at, a.lo, a.hi = r.Stands(), r.Token, r.To
		out.Quiet('A', "the server executes its command", s)
		return
	}
	at, again, left := a.at, a.again, m.lease-1-min(a.age, m.lease-1)
	a.at, a.age, a.again = server.None, 0, false
	switch a.mode {
	case asking:
		switch {
		case at == server.Denied, a.closed:
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
	out.Quiet('A', "gets the answer", s)
}

// passed is what A makes of the answer to who listens.
func (m *keeping) passed(s *state, at uint8, again bool, left uint8) {
	a := &s.a
	if at != server.Done {
		s.finish(m, again)
		return
	}
	a.trust, a.next, a.last, a.sure = max(a.trust, left), a.lo, a.hi, true
	if m.off.Has(wantedFirst) {
		a.wanted = false
	}
	if again && !m.off.Has(strayPass) || !m.mayKeep(a) || a.closed || a.trust*2 <= m.lease {
		a.mode, a.trust = leaving, 0
		s.send(release)
		return
	}
	a.mode = kept
}

// hearing is what becomes of A's mailbox.
func (m *keeping) hearing(s state, out *steps) {
	a := &s.a
	switch {
	case a.box == model.Off && (a.mode == holding || a.mode == passing || a.mode == kept):
		n := s
		n.a.box = model.On
		out.Quiet('A', "its mailbox is subscribed", n)
	case a.box == model.On:
		n := s
		n.a.box = model.Heard
		n.look(m, true)
		out.Quiet('A', "hears from its mailbox", n)
	case a.box == model.Severed:
		n := s
		n.a.box = model.Off
		n.look(m, false)
		out.Quiet('A', "notices that the connection of its mailbox is broken", n)
	}
	if a.box == model.Heard && a.calls > 0 {
		n := s
		n.a.calls = 0
		n.heard(m, false)
		out.Quiet('A', "is called", n)
		if n := s; model.Spend(&n.silent) {
			n.a.calls = 0
			out.Loud(0, "a call is lost without a word", n)
		}
	}
	if n := s; model.Spend(&n.breaks) && a.box.Up() {
		n.a.box, n.a.calls = model.Severed, 0
		out.Loud(0, "the connection of A's mailbox breaks", n)
	}
}

// look is that calls may have been missed, or arrive from now on.
func (s *state) look(m *keeping, confirmed bool) {
	s.a.hears, s.a.gap = confirmed, true
	if s.a.mode == kept && m.off.Has(gaps|asksHearing) {
		return
	}
	s.heard(m, true)
}

// heard is a call, or that one may have been missed.
func (s *state) heard(m *keeping, missed bool) {
	switch {
	case s.a.mode == kept && !m.off.Has(givesBack):
		s.give(m)
	case !missed && s.a.mode != giving && s.a.mode != leaving:
		s.a.wanted = true
	}
}

// call is a message to A's mailbox. A second one under way says no more than the first.
func (s *state) call() {
	if s.a.box.Up() {
		s.a.calls = 1
	}
}
