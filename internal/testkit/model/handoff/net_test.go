package handoff

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

// fails are answers that do not come in time, and a process that dies.
func (m *hand) fails(s state, c int, out *steps) {
	cl := &s.clients[c]
	if c > 0 {
		return // one is enough: the other is who is harmed
	}
	if s.crashes > 0 && cl.mode != idle {
		n := s
		n.crashes--
		m.crash(&n, c)
		out.Loud('A'+c, "dies", n)
	}
	if s.faults == 0 {
		return
	}
	s.faults--
	if cl.renew.at != server.None {
		n := s
		m.abandon(&n, cl.renew)
		n.clients[c].renew = command{}
		out.Loud('A'+c, "hears nothing of its renewal", n)
	}
	if cl.try.at != server.None {
		n := s
		m.abandon(&n, cl.try)
		n.clients[c].try.at, n.clients[c].try.again = server.Sent, true
		out.Loud('A'+c, "hears nothing and sends again", n)
	}
	if cl.op.at == server.None {
		return
	}
	n := s
	m.abandon(&n, cl.op)
	op := &n.clients[c].op
	op.at, op.age, op.again, op.lo, op.hi = server.Sent, 0, true, 0, 0
	out.Loud('A'+c, "hears nothing and sends again", n)
	if cl.op.kind == recount {
		n = s
		m.abandon(&n, cl.op)
		n.clients[c].op, n.clients[c].stray = command{}, true
		out.Loud('A'+c, "hears nothing and gives up", n)
		return
	}
	n = s
	m.finish(&n, c, true)
	out.Loud('A'+c, "hears nothing and gives up", n)
}

// abandon leaves a request to the network: it may arrive at any time from here on, or never. Where the
// bounds have no room for it, never.
func (m *hand) abandon(s *state, h command) {
	given := func(r message) bool { return r.kind != undoer }
	if h.at == server.Sent && (model.Count(s.net[:], given) >= m.messages || !model.Put(s.net[:], h.message(), order)) {
		m.noRoom(s)
	}
}

// undo releases in the background, from that step on.
func (m *hand) undo(s *state, owner, step uint8) {
	if !model.Put(s.net[:], message{kind: undoer, owner: owner, step: step}, order) {
		m.noRoom(s)
		s.full = true
	}
}

func (m *hand) noRoom(s *state) {
	if !s.full {
		m.cut++
	}
}

// crash ends a process; what it wanted next it wants in its next life.
func (m *hand) crash(s *state, c int) {
	cl := &s.clients[c]
	s.crashed |= 1<<cl.id | 1<<cl.try.owner
	model.Change(s.net[:], order, func(r message) (message, bool) {
		its := r.kind == undoer && clientOf(r.owner) == c
		if its {
			s.crashed |= 1 << r.owner
		}
		return r, !its
	})
	m.forget(s, c)
	m.abandon(s, cl.op)
	m.abandon(s, cl.try)
	cl.try = command{}
	cl.retire(c, cl.id)
	cl.waits = [maxOwners]bool{}
	m.advance(s, c)
}

// network is what becomes of messages that nobody waits for. Those that were given up may also be
// lost.
func (m *hand) network(s state, out *steps) {
	for i, r := range model.Under(s.net[:]) {
		c := clientOf(r.owner)
		n := s
		model.Take(n.net[:], i)
		switch {
		case r.kind != undoer:
			out.Quiet('A'+c, "a late message is lost", n)
			m.run(&n, r, false)
			out.Quiet('A'+c, "a late message arrives", n)
		case r.step != undoPause:
			m.run(&n, r, false)
			if r.step < undoPause {
				m.undo(&n, r.owner, r.step+1)
			}
			out.Quiet('A'+c, "an undo releases", n)
		}
	}
}

// Steps of an undo: two releases, one after the other, a pause that is longer than a message lives,
// and another release.
const undoPause = 3

// undoLast is the step of an undo of which nothing is left behind: one release that the server
// answers.
const undoLast = undoPause + 1

// time is a tick of all clocks.
func (m *hand) time(s state, out *steps) {
	s.Tick()
	model.Change(s.net[:], order, func(r message) (message, bool) {
		if r.kind == undoer && r.step == undoPause {
			r.step++
		}
		return r, r.kind == undoer || !m.brief
	})
	for c := range maxClients {
		cl := &s.clients[c]
		for _, h := range []*command{&cl.op, &cl.renew} {
			if h.at != server.None && h.kind != release && h.age < m.lease-1 {
				h.age++
			}
		}
		switch {
		case cl.mode != holding && cl.mode != passing:
		case cl.trust > 1:
			cl.trust--
		case !m.off.Has(ownDeadline):
			m.finish(&s, c, true)
		}
	}
	out.Quiet(0, "time passes", s)
}
