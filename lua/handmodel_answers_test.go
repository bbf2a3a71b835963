package lua_test

import "github.com/holdfast-go/holdfast/lua"

// answers are commands that the server executes, and answers that come.
func (m *hand) answers(s handState, c int, emit func(string, handState)) {
	cl := &s.clients[c]
	switch cl.op.at {
	case none:
	case sent:
		m.executed(s, c, emit)
	default:
		m.answered(s, c, emit)
	}
	for i, r := range cl.renews {
		n := s
		switch r.at {
		case none:
			continue
		case sent:
			a := m.run(&n, r.message(), false)
			n.clients[c].renews[i].at = standing(a)
			emit(handLabels[c][hServer], n)
		default:
			n.clients[c].renews[i] = handCall{}
			m.renewed(&n, c, r)
			emit(handLabels[c][hRenewed], n)
		}
	}
}

func (h handCall) message() handMessage {
	r := handMessage{kind: h.kind, names: h.names, name: h.name}
	r.again = h.kind == acquire && h.again
	return r
}

func standing(a handAnswer) uint8 {
	return map[lua.Status]uint8{lua.Done: done, lua.Denied: denied, lua.Gone: gone}[a.status]
}

// executed is the server's part. A subscription may linger, so a pass may meet listeners where nobody waits.
func (m *hand) executed(s handState, c int, emit func(string, handState)) {
	op := s.clients[c].op
	for _, lingers := range []bool{false, true} {
		n := s
		a := m.run(&n, op.message(), lingers)
		nop := &n.clients[c].op
		nop.at, nop.lo, nop.hi = standing(a), uint8(a.lo), uint8(a.hi) //nolint:gosec // few
		emit(handLabels[c][hServer], n)
		if op.kind != passing || a.listened {
			return
		}
	}
}

// run executes a request and notes what it did to whom.
func (m *hand) run(s *handState, r handMessage, lingers bool) (a handAnswer) {
	before := s.handKeys
	c := handClientOf(r.names[0])
	switch r.kind {
	case acquire:
		a = s.acquire(m.off, r.names[0], m.lease, r.again, m.block)
	case passing:
		a = s.pass(m.off, r.names, m.lease, m.block, lingers || s.clients[1-c].listens)
	case release, undoer:
		a = s.release(r.names)
	case recount:
		a = s.recount(r.names, 1, m.lease)
	case renewal:
		a = s.renew(r.names, r.name, m.lease)
	}
	switch {
	case before.owner == 0 && s.owner != 0 && r.kind != acquire:
		s.wrong |= revived
	case before.owner != 0 && handClientOf(before.owner) != c && before != s.handKeys:
		s.wrong |= strangers
	}
	return a
}

// left is for how long a lease is trusted that was sent so long ago.
func (m *hand) left(h handCall) uint8 { return m.lease - 1 - min(h.age, m.lease-1) }

// answered is what a client makes of the answer to its command.
func (m *hand) answered(s handState, c int, emit func(string, handState)) {
	cl := &s.clients[c]
	op := cl.op
	cl.op = handCall{}
	cl.stray = cl.stray || op.again
	label, ok := handLabels[c][hAnswer], true
	switch op.kind {
	case acquire:
		cl.names = names{}
		switch {
		case op.at == denied:
			cl.listens = true
		case m.left(op) == 0:
			ok = m.finish(&s, c, true)
		default:
			cl.mode, cl.listens, cl.names, cl.trust = holding, false, names{cl.id}, m.left(op)
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
func (m *hand) passed(s handState, c int, op handCall, emit func(string, handState)) {
	cl := &s.clients[c]
	if op.at == gone && !op.again {
		m.told(&s, c)
	}
	if op.at != done && (op.at != denied || !m.off.has(passReleases)) {
		if m.finish(&s, c, false) {
			emit(handLabels[c][hAnswer], s)
		}
		return
	}
	cl.trust = max(cl.trust, m.left(op))
	cl.next, cl.last = op.lo, op.hi
	if cl.stray && !m.off.has(strayPass) {
		m.release(&s, c)
		emit(handLabels[c][hAnswer], s)
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
	emit(handLabels[c][hAnswer], s)
}

// renewed is what the watchdog makes of an answer.
func (m *hand) renewed(s *handState, c int, r handCall) {
	cl := &s.clients[c]
	switch {
	case r.at == done:
		cl.trust = max(cl.trust, m.left(r))
		if r.name != 0 && cl.names[1] == r.name {
			cl.names = names{r.name}
			cl.changes++
		}
	case cl.mode == passing && !m.off.has(believesPass):
	case cl.changes != r.changes && !m.off.has(believesNames):
	default:
		m.told(s, c)
		if cl.mode == passing && cl.op.kind == passing && cl.op.at == denied {
			s.wrong |= falseLoss // it was given up, not lost
		}
		_ = m.finish(s, c, false)
	}
}

// told notes that a client believes that its lock is lost.
func (m *hand) told(s *handState, c int) {
	if s.owner != 0 && handClientOf(s.owner) == c {
		s.wrong |= falseLoss
	}
}
