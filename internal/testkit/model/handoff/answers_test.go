package handoff

import "github.com/holdfast-go/holdfast/internal/testkit/model/server"

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

// tried is what becomes of an attempt beside the one in front. What it is granted it gives back at
// once.
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
	s.wrong.If(try.at == server.Done && cl.mode == holding && cl.id == try.owner, errTwo)
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

// executed is the server's part. A subscription may linger, so a pass may meet listeners where
// nobody waits.
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
		a = s.Acquire(m.off, r.owner, m.lease, m.block, r.again)
	case passing:
		a = s.Pass(m.off, r.owner, m.lease, m.block, lingers || s.clients[1-c].listens)
	case release, undoer:
		a = s.Release(m.off, r.owner)
	case recount:
		a = s.Recount(m.off, r.owner, 1, m.lease)
	case renewal:
		a = s.Renew(m.off, r.owner, m.lease)
	}
	switch {
	case before.Owner == 0 && s.Owner != 0 && r.kind != acquire:
		s.wrong.Add(errBack)
	case before.Owner != 0 && clientOf(before.Owner) != c && before != s.Keys:
		s.wrong.Add(errAnothers)
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
	if cl.stray && !m.off.Has(strayPass) {
		m.release(&s, c)
		out.Quiet('A'+c, "gets the answer", s)
		return
	}
	if cl.waits != [maxOwners]bool{} {
		cl.mode = holding
		m.handOn(s, c, out)
		return
	}
	m.release(&s, c) // everybody has left meanwhile
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
		s.wrong.If(given, errFalse) // it was given up, not lost
		m.finish(s, c, false)
	}
}

// told notes that a client believes that its lock is lost.
func (m *hand) told(s *state, c int) {
	s.wrong.If(s.Owner != 0 && clientOf(s.Owner) == c, errFalse)
}
