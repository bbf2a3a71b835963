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

func (m *keeping) next(s state, out *steps) {
	m.keeper(s, out)
	m.renewal(s, out)
	m.answers(s, out)
	m.hearing(s, out)
	m.waiter(s, out)
	m.network(s, out)
	m.time(s, out)
}

// renewal is the watchdog's, whose answer comes at once. What is wrong with others the other models say.
func (m *keeping) renewal(s state, out *steps) {
	a := &s.a
	if a.mode != holding && a.mode != kept && a.mode != passing || a.trust == 0 {
		return
	}
	n := s
	if s.Owner != a.id() {
		if a.mode != passing { // else it is not believed
			n.finish(m, false)
			out.Quiet('A', "a renewal finds nothing", n)
		}
		return
	}
	n.TTL, n.a.trust = m.lease, m.lease-1
	if n != s {
		out.Loud('A', "renews", n)
	}
}

// waiter is what B does.
func (m *keeping) waiter(s state, out *steps) {
	b := &s.b
	n := s
	ask := func(mode uint8) { n.b.mode, n.b.at = mode, server.None }
	switch b.mode {
	case away:
		if b.wishes > 0 {
			n.b.wishes--
			ask(asks1)
			out.Quiet('B', "wants the lock, and asks", n)
		}
		if b.tries > 0 {
			n = s
			n.b.tries--
			n.b.once = true
			ask(asks1)
			out.Loud('B', "tries", n)
		}
	case asks1, asks2:
		m.bAsks(s, out)
	case subscribes:
		if !b.listens {
			n.b.listens = true
			out.Quiet('B', "the server subscribes it", n)
			return
		}
		if ask(asks2); m.off.Has(listensThen) {
			n.b.mode = sleeps
		}
		out.Quiet('B', "knows that it listens", n)
	case sleeps:
		if b.told {
			n.b.told = false
			ask(asks2)
			out.Quiet('B', "is woken, and asks", n)
		}
	case has:
		n.b.mode = returns
		out.Quiet('B', "unlocks", n)
	case returns:
		n.Release(m.off, theirs)
		n.b = waiter{wishes: b.wishes, tries: b.tries}
		out.Quiet('B', "the server executes its command", n)
	}
}

// bAsks is B's attempt at the server, and the answer.
func (m *keeping) bAsks(s state, out *steps) {
	b := &s.b
	if b.at == server.None {
		r := s.Acquire(m.off, theirs, model.Endless, 1, false)
		if b.at = r.Stands(); b.at == server.Denied {
			s.call()
		} else {
			s.gets(r.Token)
		}
		out.Quiet('B', "the server executes its command", s)
		return
	}
	switch at := b.at; {
	case at == server.Done:
		b.mode, b.listens, b.told = has, false, false
	case b.once:
		*b = waiter{wishes: b.wishes, tries: b.tries}
	case b.mode == asks1:
		b.mode = subscribes
	default:
		b.mode = sleeps
	}
	b.at = server.None
	out.Quiet('B', "gets the answer", s)
}

// run executes a request of A's, and wakes B if it listens.
func (m *keeping) run(s *state, r request, again bool) (a server.Answer) {
	before := s.Owner
	switch r.kind {
	case acquire:
		a = s.Acquire(m.off, r.id, m.lease, 1, again)
	case pass:
		a = s.Pass(m.off, r.id, m.lease, block, s.b.listens)
	case release:
		a = s.Release(m.off, r.id)
	}
	s.b.told = s.b.told || s.b.listens && before != 0 && s.Owner == 0
	return a
}

// network is what goes wrong.
func (m *keeping) network(s state, out *steps) {
	if s.undo != 0 {
		n := s
		n.undo = 0
		m.run(&n, request{release, s.undo}, false)
		model.Change(n.net[:], func(r request) (request, bool) {
			return r, r.id != s.undo // it is repeated for as long as any of these may arrive
		})
		out.Quiet('A', "an undo releases", n)
	}
	for i, r := range model.Under(s.net[:]) {
		n := s
		model.Take(n.net[:], i)
		out.Quiet(0, "a late message is lost", n)
		m.run(&n, r, r.kind == acquire)
		out.Quiet(0, "a late message arrives", n)
	}
	if a := &s.a; s.faults > 0 && a.at != server.None {
		n := s
		n.faults--
		if a.at != server.Sent || model.Put(n.net[:], a.op) {
			n.a.at, n.a.age, n.a.again, n.a.lo, n.a.hi = server.Sent, 0, true, 0, 0
			out.Loud('A', "hears nothing and sends again", n)
		} else {
			m.cut++
		}
	}
	if n := s; model.Spend(&n.forces) && s.Owner != 0 && s.Owner != theirs {
		n.forced = true
		m.run(&n, request{release, s.Owner}, false)
		n.call()
		out.Loud(0, "somebody forces the lock free", n)
	}
}

// time is a tick.
func (m *keeping) time(s state, out *steps) {
	a := &s.a
	stands := s.Owner == a.id() && a.mode != idle
	before := s.Owner
	if s.Tick(); before != 0 && s.Owner == 0 {
		s.b.told = s.b.mode >= asks1 && s.b.mode <= sleeps // nobody announces that: who waits asks then
	}
	if a.at != server.None && a.age < m.lease-1 {
		a.age++
	}
	if a.trust > 0 {
		if a.trust--; a.trust == 0 && (a.mode == holding || a.mode == passing) {
			s.finish(m, true)
		}
	}
	if stands {
		out.Loud(0, "time passes", s)
		return
	}
	out.Quiet(0, "time passes for what nobody has", s)
}
