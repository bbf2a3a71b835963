package handoff

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

// answers are commands that the server executes, and answers that come.
func (m *hand) answers(s state, c int, out *steps) {
	cl := &s.clients[c]
	switch cl.op.at {
	case server.None:
	case server.Sent:
		m.executed(s, c, out)
	default:
		m.answered(s, c, out)
	}
	m.tried(s, c, out)
	switch n, r := s, cl.renew; r.at {
	case server.None:
	case server.Sent:
		a := m.run(&n, r.message(), false)
		n.clients[c].renew.at = a.Stands()
		out.Quiet('A'+c, "the server executes its command", n)
	default:
		n.clients[c].renew = command{}
		m.renewed(&n, c, r)
		out.Quiet('A'+c, "gets the answer to a renewal", n)
	}
}

// tried is what becomes of an attempt beside the one in front. What it is granted it gives back at once.
func (m *hand) tried(s state, c int, out *steps) {
	cl := &s.clients[c]
	try := cl.try
	switch try.at {
	case server.None:
		return
	case server.Sent:
		cl.try.at = m.run(&s, try.message(), false).Stands()
		out.Quiet('A'+c, "the server executes its command", s)
		return
	}
	cl.try = command{}
	s.wrong.If(try.at == server.Done && cl.mode == holding && cl.id == try.owner, model.ErrTwo)
	switch {
	case try.again:
		cl.retire(c, try.owner)
		m.undo(&s, try.owner, 1)
	case try.at == server.Done:
		cl.retire(c, try.owner)
		m.undo(&s, try.owner, undoLast)
	}
	out.Quiet('A'+c, "gets the answer", s)
}

func (h command) message() message {
	r := message{kind: h.kind, owner: h.owner}
	r.again = h.kind == acquire && h.again
	return r
}

// executed is the server's part. A subscription may linger, so a pass may meet listeners where nobody waits.
func (m *hand) executed(s state, c int, out *steps) {
	op := s.clients[c].op
	for _, lingers := range []bool{false, true} {
		n := s
		a := m.run(&n, op.message(), lingers)
		nop := &n.clients[c].op
		nop.at, nop.lo, nop.hi = a.Stands(), a.Token, a.To
		out.Quiet('A'+c, "the server executes its command", n)
		if op.kind != passing || a.Listened {
			return
		}
	}
}

// run executes a request and notes what it did to whom.
func (m *hand) run(s *state, r message, lingers bool) (a server.Answer) {
	before := s.Keys
	c := clientOf(r.owner)
	switch r.kind {
	case acquire:
		a = s.Acquire(m.off, r.owner, m.lease, block, r.again)
	case passing:
		a = s.Pass(m.off, r.owner, m.lease, block, lingers || s.clients[1-c].listens)
	case release, undoer:
		a = s.Release(m.off, r.owner)
	case recount:
		a = s.Recount(m.off, r.owner, 1, m.lease)
	case renewal:
		a = s.Renew(m.off, r.owner, m.lease)
	}
	switch {
	case before.Owner == 0 && s.Owner != 0 && r.kind != acquire:
		s.wrong.Add(model.ErrBack)
	case before.Owner != 0 && clientOf(before.Owner) != c && before != s.Keys:
		s.wrong.Add(model.ErrAnothers)
	}
	return a
}

// left is for how long a lease is trusted that was sent so long ago.
func (m *hand) left(h command) uint8 { return m.lease - 1 - min(h.age, m.lease-1) }

// answered is what a client makes of the answer to its command.
func (m *hand) answered(s state, c int, out *steps) {
	cl := &s.clients[c]
	op := cl.op
	cl.op = command{}
	cl.stray = cl.stray || op.again
	switch op.kind {
	case acquire:
		switch {
		case op.at == server.Denied:
			cl.listens = true
		case m.left(op) == 0:
			m.finish(&s, c, true)
		default:
			cl.mode, cl.listens, cl.trust = holding, false, m.left(op)
			cl.next, cl.last = op.lo+1, op.hi
			m.gets(&s, c, op.lo)
		}
	case recount:
		if op.at == server.Gone {
			m.told(&s, c)
			m.finish(&s, c, false)
		} else {
			cl.trust = max(cl.trust, m.left(op))
		}
	case release:
		m.finish(&s, c, false)
	case passing:
		m.passed(s, c, op, out)
		return
	}
	out.Quiet('A'+c, "gets the answer", s)
}

// passed is the end of a pass.
func (m *hand) passed(s state, c int, op command, out *steps) {
	cl := &s.clients[c]
	if op.at == server.Gone && !op.again {
		m.told(&s, c)
	}
	if op.at != server.Done && (op.at != server.Denied || !m.off.Has(passReleases)) {
		m.finish(&s, c, false)
		out.Quiet('A'+c, "gets the answer", s)
		return
	}
	cl.trust = max(cl.trust, m.left(op))
	cl.next, cl.last = op.lo, op.hi
	if cl.waits != [maxOwners]bool{} && (!cl.stray || m.off.Has(strayPass)) {
		cl.mode = holding
		m.handOn(s, c, out)
		return
	}
	m.release(&s, c)
	out.Quiet('A'+c, "gets the answer", s)
}

// renewed is what the watchdog makes of an answer.
func (m *hand) renewed(s *state, c int, r command) {
	cl := &s.clients[c]
	switch {
	case r.at == server.Done:
		cl.trust = max(cl.trust, m.left(r))
	case cl.mode == passing && !m.off.Has(believesPass):
	default:
		m.told(s, c)
		given := cl.mode == passing && cl.op.kind == passing && cl.op.at == server.Denied
		s.wrong.If(given, model.ErrFalse) // it was given up, not lost
		m.finish(s, c, false)
	}
}

// told notes that a client believes that its lock is lost.
func (m *hand) told(s *state, c int) {
	s.wrong.If(s.Owner != 0 && clientOf(s.Owner) == c, model.ErrFalse)
}

// fails are answers that do not come in time, and a process that dies.
func (m *hand) fails(s state, c int, out *steps) {
	cl := &s.clients[c]
	if c > 0 {
		return // one is enough: the other is who is harmed
	}
	if n := s; model.Spend(&n.crashes) && cl.mode != idle {
		m.crash(&n, c)
		out.Loud('A'+c, "dies", n)
	}
	if !model.Spend(&s.faults) {
		return
	}
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
		m.abandon(&s, cl.op)
		cl.op, cl.stray = command{}, true
		out.Loud('A'+c, "hears nothing and gives up", s)
		return
	}
	m.finish(&s, c, true)
	out.Loud('A'+c, "hears nothing and gives up", s)
}

// abandon leaves a request to the network: it may arrive at any time from here on, or never; without room for it, never.
func (m *hand) abandon(s *state, h command) {
	given := func(r message) bool { return r.kind != undoer }
	if h.at == server.Sent {
		s.full.Cut(model.Count(s.net[:], given) < m.messages && model.Put(s.net[:], h.message()), &m.cut)
	}
}

// undo releases in the background, from that step on.
func (m *hand) undo(s *state, owner, step uint8) {
	s.full.Need(model.Put(s.net[:], message{kind: undoer, owner: owner, step: step}), &m.cut)
}

// crash ends a process; what it wanted next it wants in its next life.
func (m *hand) crash(s *state, c int) {
	cl := &s.clients[c]
	s.crashed |= 1<<cl.id | 1<<cl.try.owner
	its := func(r message) bool { return r.kind == undoer && clientOf(r.owner) == c }
	for _, r := range model.Extract(s.net[:], its) {
		s.crashed |= 1 << r.owner
	}
	m.forget(s, c)
	m.abandon(s, cl.op)
	m.abandon(s, cl.try)
	cl.try = command{}
	cl.retire(c, cl.id)
	cl.waits = [maxOwners]bool{}
	m.advance(s, c)
}

// network is what becomes of messages that nobody waits for. Those that were given up may also be lost.
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

// Steps of an undo: two releases, one after the other, a pause that is longer than a message lives, and another release.
const undoPause = 3

// undoLast is the step of an undo of which nothing is left behind: one release that the server answers.
const undoLast = undoPause + 1

// time is a tick of all clocks.
func (m *hand) time(s state, out *steps) {
	s.Tick()
	model.Change(s.net[:], func(r message) (message, bool) {
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
