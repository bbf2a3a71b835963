package handoff

func (m *hand) next(s state, see func(string, state)) {
	emit := func(label string, n state) {
		n.normal()
		see(label, n)
	}
	for c := range maxClients {
		m.wants(s, c, emit)
		m.holds(s, c, emit)
		m.renewals(s, c, emit)
		m.answers(s, c, emit)
		m.fails(s, c, emit)
	}
	m.network(s, emit)
	m.time(s, emit)
}

// wants are the wishes of owners, and what who is refused does.
func (m *hand) wants(s state, c int, emit func(string, state)) {
	cl := &s.clients[c]
	for o := range uint8(maxOwners) {
		switch at := cl.front == o+1; {
		case !at && !cl.waits[o] && cl.wishes[o] > 0 && cl.try.owner != ownerID(c, o, cl.gens[o]):
			n := s
			n.clients[c].wishes[o]--
			n.clients[c].waits[o] = true
			if cl.front == 0 {
				m.advance(&n, c)
			}
			emit(labels[c][hWants], n)
		case cl.waits[o]:
			n := s
			n.clients[c].waits[o] = false
			emit(labels[c][hWaited], n)
		}
	}
	m.tryBeside(s, c, emit)
	if cl.mode != trying || cl.op.at != none {
		return
	}
	n := s
	n.clients[c].op = command{kind: acquire, at: sent, owner: cl.id, again: cl.stray}
	emit(labels[c][hAgain], n)
	n = s
	if m.finish(&n, c, false) {
		emit(labels[c][hWaited], n)
	}
}

// tryBeside are attempts of owners that do not wait for the one in front.
func (m *hand) tryBeside(s state, c int, emit func(string, state)) {
	if s.tries == 0 || s.clients[c].mode == idle || s.clients[c].try.at != none {
		return
	}
	s.tries--
	for o := range uint8(maxOwners) {
		n := s
		cl := &n.clients[c]
		if cl.front != o+1 && !cl.waits[o] {
			cl.try = command{kind: acquire, at: sent, owner: ownerID(c, o, cl.gens[o])}
			emit(labels[c][hTries], n)
		}
	}
}

// advance puts whoever waits in front, to ask for the lock, or nobody.
func (m *hand) advance(s *state, c int) {
	cl := &s.clients[c]
	*cl = client{gens: cl.gens, waits: cl.waits, wishes: cl.wishes, try: cl.try}
	if m.step(cl, c) {
		cl.mode, cl.op = trying, command{kind: acquire, at: sent, owner: cl.id}
	}
}

// step takes the next owner to the front.
func (m *hand) step(cl *client, c int) bool {
	for o := range uint8(maxOwners) {
		if cl.waits[o] {
			cl.waits[o], cl.front = false, o+1
			cl.id = ownerID(c, o, cl.gens[o])
			return true
		}
	}
	return false
}

// holds is what a holder does next.
func (m *hand) holds(s state, c int, emit func(string, state)) {
	cl := &s.clients[c]
	if cl.mode != holding || cl.op.at != none {
		return
	}
	n := s
	if m.enters && !cl.entered {
		n.clients[c].entered = true
		n.clients[c].op = command{kind: recount, at: sent, owner: cl.id}
		emit(labels[c][hReenters], n)
	}
	waiting := false
	for _, w := range cl.waits {
		waiting = waiting || w
	}
	if !waiting || cl.stray && !m.off.has(strayGrant) || cl.trust*2 <= m.lease && !m.off.has(halfLease) {
		n = s
		m.release(&n, c)
		emit(labels[c][hUnlocks], n)
		return
	}
	if cl.next != 0 && cl.next <= cl.last { // 0: they are used up
		n = s
		if cl.trust*2 <= m.lease {
			n.wrong |= tooLate
		}
		m.handOn(n, c, emit)
	}
	n = s
	n.clients[c].mode = passing
	n.clients[c].op = command{kind: passing, at: sent, owner: cl.id}
	emit(labels[c][hPasses], n)
}

// release begins the last unlock's release: the watch is over.
func (m *hand) release(s *state, c int) {
	cl := &s.clients[c]
	m.forget(s, c)
	cl.mode, cl.op = leaving, command{kind: release, at: sent, owner: cl.id}
}

// forget ends the watch: what comes back of renewals is nobody's.
func (m *hand) forget(s *state, c int) {
	cl := &s.clients[c]
	m.abandon(s, cl.renew)
	cl.renew, cl.trust = command{}, 0
}

// handOn makes the one who waits the holder; the second way is that it leaves in that moment.
func (m *hand) handOn(s state, c int, emit func(string, state)) {
	cl := &s.clients[c]
	id := cl.id
	if !m.off.has(handedFresh) {
		cl.retire(c, cl.id)
	}
	if !m.step(cl, c) {
		return
	}
	cl.mode, cl.entered, cl.stray, cl.id = holding, false, false, id // a straggler is the one's before
	m.gets(&s, c, cl.next)
	cl.next++
	emit(labels[c][hHands], s)
	if m.leavers {
		if m.off.has(leaverGives) {
			m.forget(&s, c)
			m.advance(&s, c)
			emit(labels[c][hLeaver], s)
		} else if m.giveBack(&s, c, true, undoLast) {
			emit(labels[c][hLeaver], s)
		}
	}
}

// gets gives the holder its token.
func (m *hand) gets(s *state, c int, token uint8) {
	if token <= s.top {
		s.wrong |= smallToken
	}
	s.top = max(s.top, token)
}

// finish ends the grant in front. With a straggler it is undone.
func (m *hand) finish(s *state, c int, undo bool) bool {
	if undo || s.clients[c].stray {
		return m.giveBack(s, c, true, 1)
	}
	m.forget(s, c)
	m.abandon(s, s.clients[c].op)
	m.advance(s, c)
	return true
}

// giveBack ends the grant in front with releases in the background from that step of an undo on.
func (m *hand) giveBack(s *state, c int, fresh bool, step uint8) bool {
	cl := &s.clients[c]
	m.forget(s, c)
	m.abandon(s, cl.op)
	id := cl.id
	if fresh {
		cl.retire(c, cl.id)
	}
	m.advance(s, c)
	if !s.put(message{kind: undoer, owner: id, step: step}) {
		m.cut++
		return false
	}
	return true
}

// renewals are what the watchdog sends.
func (m *hand) renewals(s state, c int, emit func(string, state)) {
	cl := &s.clients[c]
	if cl.mode != holding && cl.mode != passing || cl.trust >= m.lease-1 || cl.renew.at != none {
		return
	}
	cl.renew = command{kind: renewal, at: sent, owner: cl.id}
	emit(labels[c][hRenews], s)
}
