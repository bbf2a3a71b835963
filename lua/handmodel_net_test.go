package lua_test

// fails are answers that do not come in time, and a process that dies.
func (m *hand) fails(s handState, c int, emit func(string, handState)) {
	cl := &s.clients[c]
	if c > 0 {
		return // one is enough: the other is who is harmed
	}
	if s.crashes > 0 && cl.mode != idle {
		n := s
		n.crashes--
		m.crash(&n, c)
		emit(handLabels[c][hDies], n)
	}
	if s.faults == 0 {
		return
	}
	s.faults--
	for i, r := range cl.renews {
		if r.at != none {
			n := s
			m.abandon(&n, r)
			n.clients[c].renews[i] = handCall{}
			emit(handLabels[c][hRenewLost], n)
		}
	}
	if cl.op.at == none {
		return
	}
	n := s
	m.abandon(&n, cl.op)
	op := &n.clients[c].op
	op.at, op.age, op.again, op.lo, op.hi = sent, 0, true, 0, 0
	switch op.kind { // the names are those of now
	case release:
		op.names = m.known(cl, knownRelease)
	case recount:
		op.names = m.known(cl, knownRecount)
	case passing:
		op.names = m.known(cl, knownPass)
	}
	emit(handLabels[c][hResends], n)
	if cl.op.kind == recount {
		n = s
		m.abandon(&n, cl.op)
		n.clients[c].op, n.clients[c].stray = handCall{}, true
		emit(handLabels[c][hGivesUp], n)
		return
	}
	n = s
	if m.finish(&n, c, true) {
		emit(handLabels[c][hGivesUp], n)
	}
}

// abandon leaves a request to the network.
func (m *hand) abandon(s *handState, h handCall) {
	if h.at != sent {
		return
	}
	if m.stragglers(s) >= m.messages || !s.put(h.message()) {
		m.cut++
	}
}

func (m *hand) stragglers(s *handState) (n int) {
	for _, r := range s.net {
		if r != (handMessage{}) && r.kind != undoer {
			n++
		}
	}
	return n
}

// crash ends a process; what it wanted next it wants in its next life.
func (m *hand) crash(s *handState, c int) {
	cl := &s.clients[c]
	dead := []uint8{cl.id, cl.names[0], cl.names[1]}
	for i := 0; i < handMessages && s.net[i] != (handMessage{}); {
		if r := s.net[i]; r.kind == undoer && handClientOf(r.names[0]) == c {
			dead = append(dead, r.names[:]...)
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
	cl.gens[cl.front-1]++
	cl.waits = [maxOwners]bool{}
	m.advance(s, c)
}

// network is what becomes of messages that nobody waits for. Those that were given up may also be lost.
func (m *hand) network(s handState, emit func(string, handState)) {
	for i, r := range s.net {
		if r == (handMessage{}) {
			return
		}
		c := handClientOf(r.names[0])
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
			emit(handLabels[c][hUndoes], n)
			continue
		}
		emit(handLabels[c][hDropped], n)
		m.run(&n, r, false)
		emit(handLabels[c][hStraggler], n)
	}
}

// undoLast is the step of an undo of which nothing is left behind: one release that the server answers.
const undoLast = undoPause + 1

// time is a tick of all clocks.
func (m *hand) time(s handState, emit func(string, handState)) {
	s.tick()
	old := s.net
	s.net = [handMessages]handMessage{}
	for _, r := range old {
		switch {
		case r == (handMessage{}):
			continue
		case r.kind == undoer && r.step == undoPause:
			r.step++
		case r.kind != undoer && m.brief:
			continue
		}
		_ = s.put(r)
	}
	for c := range handClients {
		cl := &s.clients[c]
		for _, h := range []*handCall{&cl.op, &cl.renews[0], &cl.renews[1]} {
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
