package keep

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

func (m *keeping) next(s state, out *steps) {
	m.keeper(s, out)
	m.renewal(s, out)
	m.answers(s, out)
	m.hearing(s, out)
	m.waiter(s, out)
	m.network(s, out)
	m.time(s, out)
}

// renewal is the watchdog's, whose answer comes at once. What is wrong with others the other models
// say.
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
	ask := func(mode uint8) {
		n.b.mode, n.b.at = mode, server.None
	}
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
