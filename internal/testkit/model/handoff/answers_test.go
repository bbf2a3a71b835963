package handoff

import "github.com/holdfast-go/holdfast/lua"

// answers are commands that the server executes, and answers that come.
func (m *hand) answers(s state, c int, emit func(string, state)) {
	cl := &s.clients[c]
	switch cl.op.at {
	case none:
	case sent:
		m.executed(s, c, emit)
	default:
		m.answered(s, c, emit)
	}
	m.tried(s, c, emit)
	switch n, r := s, cl.renew; r.at {
	case none:
	case sent:
		a := m.run(&n, r.message(), false)
		n.clients[c].renew.at = standing(a)
		emit(labels[c][hServer], n)
	default:
		n.clients[c].renew = command{}
		m.renewed(&n, c, r)
		emit(labels[c][hRenewed], n)
	}
}

// tried is what becomes of an attempt beside the one in front. What it is granted it gives back at
// once.
func (m *hand) tried(s state, c int, emit func(string, state)) {
	cl := &s.clients[c]
	try := cl.try
	switch try.at {
	case none:
		return
	case sent:
		cl.try.at = standing(m.run(&s, try.message(), false))
		emit(labels[c][hServer], s)
		return
	}
	cl.try = command{}
	if try.at == done && cl.mode == holding && cl.id == try.owner {
		s.wrong |= twice
	}
	if try.at == done || try.again {
		step := uint8(undoLast)
		if try.again {
			step = 1
		}
		cl.retire(c, try.owner)
		if !s.put(message{kind: undoer, owner: try.owner, step: step}) {
			m.cut++
			return
		}
	}
	emit(labels[c][hAnswer], s)
}

func (h command) message() message {
	r := message{kind: h.kind, owner: h.owner}
	r.again = h.kind == acquire && h.again
	return r
}

func standing(a answer) uint8 {
	return map[lua.Status]uint8{lua.Done: done, lua.Denied: denied, lua.Gone: gone}[a.status]
}

// executed is the server's part. A subscription may linger, so a pass may meet listeners where
// nobody waits.
func (m *hand) executed(s state, c int, emit func(string, state)) {
	op := s.clients[c].op
	for _, lingers := range []bool{false, true} {
		n := s
		a := m.run(&n, op.message(), lingers)
		nop := &n.clients[c].op
		nop.at, nop.lo, nop.hi = standing(a), uint8(a.lo), uint8(a.hi) //nolint:gosec // few
		emit(labels[c][hServer], n)
		if op.kind != passing || a.listened {
			return
		}
	}
}

// run executes a request and notes what it did to whom.
func (m *hand) run(s *state, r message, lingers bool) (a answer) {
	before := s.keys
	c := clientOf(r.owner)
	switch r.kind {
	case acquire:
		a = s.acquire(m.off, r.owner, m.lease, r.again, m.block)
	case passing:
		a = s.pass(m.off, r.owner, m.lease, m.block, lingers || s.clients[1-c].listens)
	case release, undoer:
		a = s.release(r.owner)
	case recount:
		a = s.recount(r.owner, 1, m.lease)
	case renewal:
		a = s.renew(r.owner, m.lease)
	}
	switch {
	case before.owner == 0 && s.owner != 0 && r.kind != acquire:
		s.wrong |= revived
	case before.owner != 0 && clientOf(before.owner) != c && before != s.keys:
		s.wrong |= strangers
	}
	return a
}

// left is for how long a lease is trusted that was sent so long ago.
func (m *hand) left(h command) uint8 { return m.lease - 1 - min(h.age, m.lease-1) }

// answered is what a client makes of the answer to its command.
func (m *hand) answered(s state, c int, emit func(string, state)) {
	cl := &s.clients[c]
	op := cl.op
	cl.op = command{}
	cl.stray = cl.stray || op.again
	label, ok := labels[c][hAnswer], true
	switch op.kind {
	case acquire:
		switch {
		case op.at == denied:
			cl.listens = true
		case m.left(op) == 0:
			ok = m.finish(&s, c, true)
		default:
			cl.mode, cl.listens, cl.trust = holding, false, m.left(op)
			cl.next, cl.last = op.lo+1, op.hi
			m.gets(&s, c, op.lo)
		}
	case recount:
		if op.at == gone {
			m.told(&s, c)
			ok = m.finish(&s, c, false)
		} else {
			cl.trust = max(cl.trust, m.left(op))
		}
	case release:
		ok = m.finish(&s, c, false)
	case passing:
		m.passed(s, c, op, emit)
		return
	}
	if ok {
		emit(label, s)
	}
}

// passed is the end of a pass.
func (m *hand) passed(s state, c int, op command, emit func(string, state)) {
	cl := &s.clients[c]
	if op.at == gone && !op.again {
		m.told(&s, c)
	}
	if op.at != done && (op.at != denied || !m.off.has(passReleases)) {
		if m.finish(&s, c, false) {
			emit(labels[c][hAnswer], s)
		}
		return
	}
	cl.trust = max(cl.trust, m.left(op))
	cl.next, cl.last = op.lo, op.hi
	if cl.stray && !m.off.has(strayPass) {
		m.release(&s, c)
		emit(labels[c][hAnswer], s)
		return
	}
	for _, w := range cl.waits {
		if w {
			cl.mode = holding
			m.handOn(s, c, emit)
			return
		}
	}
	m.release(&s, c) // everybody has left meanwhile
	emit(labels[c][hAnswer], s)
}

// renewed is what the watchdog makes of an answer.
func (m *hand) renewed(s *state, c int, r command) {
	cl := &s.clients[c]
	switch {
	case r.at == done:
		cl.trust = max(cl.trust, m.left(r))
	case cl.mode == passing && !m.off.has(believesPass):
	default:
		m.told(s, c)
		if cl.mode == passing && cl.op.kind == passing && cl.op.at == denied {
			s.wrong |= falseLoss // it was given up, not lost
		}
		_ = m.finish(s, c, false)
	}
}

// told notes that a client believes that its lock is lost.
func (m *hand) told(s *state, c int) {
	if s.owner != 0 && clientOf(s.owner) == c {
		s.wrong |= falseLoss
	}
}
