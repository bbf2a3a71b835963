package handoff

// fails are answers that do not come in time, and a process that dies.
func (m *hand) fails(s state, c int, emit func(string, state)) {
	cl := &s.clients[c]
	if c > 0 {
		return // one is enough: the other is who is harmed
	}
	if s.crashes > 0 && cl.mode != idle {
		n := s
		n.crashes--
		m.crash(&n, c)
		emit(labels[c][hDies], n)
	}
	if s.faults == 0 {
		return
	}
	s.faults--
	if cl.renew.at != none {
		n := s
		m.abandon(&n, cl.renew)
		n.clients[c].renew = command{}
		emit(labels[c][hRenewLost], n)
	}
	if cl.try.at != none {
		n := s
		m.abandon(&n, cl.try)
		n.clients[c].try.at, n.clients[c].try.again = sent, true
		emit(labels[c][hResends], n)
	}
	if cl.op.at == none {
		return
	}
	n := s
	m.abandon(&n, cl.op)
	op := &n.clients[c].op
	op.at, op.age, op.again, op.lo, op.hi = sent, 0, true, 0, 0
	emit(labels[c][hResends], n)
	if cl.op.kind == recount {
		n = s
		m.abandon(&n, cl.op)
		n.clients[c].op, n.clients[c].stray = command{}, true
		emit(labels[c][hGivesUp], n)
		return
	}
	n = s
	if m.finish(&n, c, true) {
		emit(labels[c][hGivesUp], n)
	}
}

// abandon leaves a request to the network.
func (m *hand) abandon(s *state, h command) {
	if h.at != sent {
		return
	}
	if m.stragglers(s) >= m.messages || !s.put(h.message()) {
		m.cut++
	}
}

func (m *hand) stragglers(s *state) (n int) {
	for _, r := range s.net {
		if r != (message{}) && r.kind != undoer {
			n++
		}
	}
	return n
}

// crash ends a process; what it wanted next it wants in its next life.
func (m *hand) crash(s *state, c int) {
	cl := &s.clients[c]
	dead := []uint8{cl.id, cl.try.owner}
	for i := 0; i < maxMessages && s.net[i] != (message{}); {
		if r := s.net[i]; r.kind == undoer && clientOf(r.owner) == c {
			dead = append(dead, r.owner)
			s.take(i)
			continue
		}
		i++
	}
	for _, id := range dead {
		s.crashed |= 1 << id
	}
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
func (m *hand) network(s state, emit func(string, state)) {
	for i, r := range s.net {
		if r == (message{}) {
			return
		}
		c := clientOf(r.owner)
		n := s
		n.take(i)
		if r.kind == undoer {
			if r.step == undoPause {
				continue
			}
			m.run(&n, r, false)
			if r.step++; r.step <= undoPause {
				_ = n.put(r)
			}
			emit(labels[c][hUndoes], n)
			continue
		}
		emit(labels[c][hDropped], n)
		m.run(&n, r, false)
		emit(labels[c][hStraggler], n)
	}
}

// Steps of an undo: two releases, one after the other, a pause that is longer than a message lives,
// and another release.
const undoPause = 3

// undoLast is the step of an undo of which nothing is left behind: one release that the server
// answers.
const undoLast = undoPause + 1

// time is a tick of all clocks.
func (m *hand) time(s state, emit func(string, state)) {
	s.tick()
	old := s.net
	s.net = [maxMessages]message{}
	for _, r := range old {
		switch {
		case r == (message{}):
			continue
		case r.kind == undoer && r.step == undoPause:
			r.step++
		case r.kind != undoer && m.brief:
			continue
		}
		_ = s.put(r)
	}
	for c := range maxClients {
		cl := &s.clients[c]
		for _, h := range []*command{&cl.op, &cl.renew} {
			if h.at != none && h.kind != release && h.age < m.lease-1 {
				h.age++
			}
		}
		if cl.mode != holding && cl.mode != passing {
			continue
		}
		switch {
		case cl.trust > 1:
			cl.trust--
		case !m.off.has(ownDeadline):
			if !m.finish(&s, c, true) {
				return
			}
		}
	}
	emit(tickLabel, s)
}
