package lua_test

func (m *hand) next(s handState, see func(string, handState)) {
	emit := func(label string, n handState) {
		n.normal()
		see(label, n)
	}
	for c := range handClients {
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
func (m *hand) wants(s handState, c int, emit func(string, handState)) {
	cl := &s.clients[c]
	for o := range uint8(maxOwners) {
		switch at := cl.front == o+1; {
		case !at && !cl.waits[o] && cl.wishes[o] > 0:
			n := s
			n.clients[c].wishes[o]--
			n.clients[c].waits[o] = true
			if cl.front == 0 {
				m.advance(&n, c)
			}
			emit(handLabels[c][hWants], n)
		case cl.waits[o]:
			n := s
			n.clients[c].waits[o] = false
			emit(handLabels[c][hWaited], n)
		}
	}
	if cl.mode != trying || cl.op.at != none {
		return
	}
	n := s
	n.clients[c].op = handCall{kind: acquire, at: sent, names: names{cl.id}, again: cl.stray}
	emit(handLabels[c][hAgain], n)
	n = s
	if m.finish(&n, c, false) {
		emit(handLabels[c][hWaited], n)
	}
}

// advance puts whoever waits in front, to ask for the lock, or nobody.
func (m *hand) advance(s *handState, c int) {
	cl := &s.clients[c]
	*cl = handClient{gens: cl.gens, waits: cl.waits, wishes: cl.wishes}
	if m.step(cl, c) {
		cl.mode, cl.op = trying, handCall{kind: acquire, at: sent, names: names{cl.id}}
	}
}

// step takes the next owner to the front.
func (m *hand) step(cl *handClient, c int) bool {
	for o := range uint8(maxOwners) {
		if cl.waits[o] {
			cl.waits[o], cl.front = false, o+1
			cl.id = handID(c, o, cl.gens[o])
			return true
		}
	}
	return false
}

// known are the names that a command lists.
func (m *hand) known(cl *handClient, off handDefence) names {
	if m.off.has(off) {
		return names{cl.names[0]}
	}
	return cl.names
}

// holds is what a holder does next.
func (m *hand) holds(s handState, c int, emit func(string, handState)) {
	cl := &s.clients[c]
	if cl.mode != holding || cl.op.at != none {
		return
	}
	n := s
	if m.enters && !cl.entered {
		n.clients[c].entered = true
		n.clients[c].op = handCall{kind: recount, at: sent, names: m.known(cl, knownRecount)}
		emit(handLabels[c][hReenters], n)
	}
	waiting := false
	for _, w := range cl.waits {
		waiting = waiting || w
	}
	if !waiting || cl.stray && !m.off.has(strayGrant) || cl.trust*2 <= m.lease && !m.off.has(halfLease) {
		n = s
		m.release(&n, c)
		emit(handLabels[c][hUnlocks], n)
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
	n.clients[c].op = handCall{kind: passing, at: sent, names: m.known(cl, knownPass)}
	emit(handLabels[c][hPasses], n)
}

// release begins the last unlock's release: the watch is over.
func (m *hand) release(s *handState, c int) {
	cl := &s.clients[c]
	m.forget(s, c)
	cl.mode, cl.op = leaving, handCall{kind: release, at: sent, names: m.known(cl, knownRelease)}
}

// forget ends the watch: what comes back of renewals is nobody's.
func (m *hand) forget(s *handState, c int) {
	cl := &s.clients[c]
	for i := range cl.renews {
		m.abandon(s, cl.renews[i])
		cl.renews[i] = handCall{}
	}
	cl.trust = 0
}

// handOn makes the one who waits the holder; the second way is that it leaves in that moment.
func (m *hand) handOn(s handState, c int, emit func(string, handState)) {
	cl := &s.clients[c]
	from := cl.front - 1
	if !m.off.has(handedFresh) {
		cl.gens[from]++
	}
	if !m.step(cl, c) {
		return
	}
	cl.mode, cl.entered = holding, false
	m.gets(&s, c, cl.next)
	cl.next++
	emit(handLabels[c][hHands], s)
	if m.leavers {
		if m.off.has(leaverGives) {
			m.forget(&s, c)
			m.advance(&s, c)
			emit(handLabels[c][hLeaver], s)
		} else if m.giveBack(&s, c, true, undoLast) {
			emit(handLabels[c][hLeaver], s)
		}
	}
}

// gets gives the holder its token.
func (m *hand) gets(s *handState, c int, token uint8) {
	if token <= s.top {
		s.wrong |= smallToken
	}
	s.top = max(s.top, token)
}

// finish ends the grant in front. With a straggler it is undone.
func (m *hand) finish(s *handState, c int, undo bool) bool {
	if undo || s.clients[c].stray {
		return m.giveBack(s, c, true, 1)
	}
	m.forget(s, c)
	m.abandon(s, s.clients[c].op)
	m.advance(s, c)
	return true
}

// giveBack ends the grant in front with releases in the background from that step of an undo on.
func (m *hand) giveBack(s *handState, c int, fresh bool, step uint8) bool {
	cl := &s.clients[c]
	m.forget(s, c)
	m.abandon(s, cl.op)
	listed := cl.names
	if listed == (names{}) {
		listed = names{cl.id}
	}
	if fresh {
		cl.gens[cl.front-1]++
	}
	m.advance(s, c)
	if !s.put(handMessage{kind: undoer, names: listed, step: step}) {
		m.cut++
		return false
	}
	return true
}

// renewals are what the watchdog sends.
func (m *hand) renewals(s handState, c int, emit func(string, handState)) {
	cl := &s.clients[c]
	if cl.mode != holding && cl.mode != passing {
		return
	}
	other := cl.id != cl.names[0]
	if cl.trust >= m.lease-1 && !other && cl.names[1] == 0 {
		return
	}
	i, n := 0, s
	switch {
	case cl.renews[0].at == none:
	case cl.renews[1].at == none && s.late > 0:
		i = 1
		n.late--
	default:
		return
	}
	nc := &n.clients[c]
	var name uint8
	switch {
	case cl.names[1] != 0:
		name = cl.names[1]
	case other && (cl.op.at == none || m.off.has(idleHolder)):
		name = cl.id
		nc.names[1] = name
		nc.changes++
	case i == 1:
		return // nothing new: that is the first once more
	}
	nc.renews[i] = handCall{kind: renewal, at: sent, names: m.known(nc, knownRenew), name: name, changes: nc.changes}
	emit(handLabels[c][hRenews], n)
}
