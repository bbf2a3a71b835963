package plain

// next calls emit for everything that can happen in s. The labels are constants, so that they cost
// nothing.
func (m *lock) next(s state, emit func(string, state)) {
	for c := range m.clients {
		m.wants(s, c, emit)
		m.calls(s, c, emit)
		m.leaves(s, c, emit)
	}
	m.network(s, emit)
	m.time(s, emit)
}

// wants are what the user of a client may want next, and what the watchdog does.
func (m *lock) wants(s state, c int, emit func(string, state)) {
	cl := &s.clients[c]
	begin := func(label int, change func(*client, *call)) {
		n := s
		op := call{at: sent, lease: n.clients[c].lease}
		change(&n.clients[c], &op)
		n.clients[c].op = op
		emit(labels[c][label], n)
	}
	if cl.op.at == none {
		switch {
		case cl.mode == idle && cl.wishes > 0 && cl.gen < gens:
			begin(lLock, func(cl *client, op *call) {
				cl.mode, cl.lease, cl.wishes = trying, m.lease, cl.wishes-1
				op.kind, op.lease = acquire, m.lease
			})
		case cl.mode == trying: // woken, or the lease that it knows of has ended
			begin(lAgain, func(cl *client, op *call) {
				op.kind, op.again = acquire, cl.stray && !m.off.has(againWaiting)
			})
		case cl.mode == holding:
			if cl.holds < m.depth {
				begin(lReenter, func(cl *client, op *call) { op.kind, op.count = reentry, cl.holds+1 })
			}
			if cl.holds > 1 {
				begin(lPartial, func(cl *client, op *call) { cl.holds--; op.kind, op.count = unlock, cl.holds })
			} else {
				begin(lUnlock, func(cl *client, op *call) { m.forget(cl); op.kind = release })
			}
			if c < m.frail && m.long > m.lease && !cl.long {
				begin(lExtend, func(cl *client, op *call) { cl.long = true; op.kind, op.lease = extend, m.long })
			}
		}
	}
	// at once matters only before an extension
	soon := cl.trust < m.trust(cl.lease) || c < m.frail && m.long > m.lease && !cl.long
	if m.renews && cl.mode == holding && cl.renew.at == none && soon {
		n := s
		n.clients[c].renew = call{kind: renewal, at: sent, lease: cl.lease}
		emit(labels[c][lRenew], n)
	}
}

// forget ends renewal and trust: the last unlock is about to be sent. A renewal under way is
// nobody's from here on.
func (m *lock) forget(cl *client) { cl.mode, cl.holds, cl.trust = leaving, 0, 0 }

// calls are the ways of a client's own messages: executed, answered, given up.
func (m *lock) calls(s state, c int, emit func(string, state)) {
	cl := &s.clients[c]
	if cl.op.at == sent {
		n := s
		m.execute(&n, c, &n.clients[c].op)
		emit(labels[c][lServer], n)
	} else if cl.op.at != none {
		n := s
		if m.answered(&n, c) {
			emit(labels[c][lReply], n)
		}
	}
	if cl.renew.at == sent {
		n := s
		m.execute(&n, c, &n.clients[c].renew)
		emit(labels[c][lServerRenews], n)
	} else if cl.renew.at != none {
		n := s
		m.renewed(&n, c)
		emit(labels[c][lRenewed], n)
	}
	if s.faults == 0 || c >= m.frail {
		return
	}
	if cl.op.at != none {
		n := s
		n.faults--
		m.abandon(&n, c, cl.op)
		n.clients[c].op.at, n.clients[c].op.age, n.clients[c].op.again = sent, 0, true
		emit(labels[c][lResend], n)
		n = s
		n.faults--
		if m.giveUp(&n, c) {
			emit(labels[c][lGiveUp], n)
		}
	}
	if cl.renew.at != none {
		n := s
		n.faults--
		m.abandon(&n, c, cl.renew)
		n.clients[c].renew = call{}
		emit(labels[c][lRenewLost], n)
	}
}

// answered is what a client makes of the answer to its call; false if the bounds have no room for
// it.
func (m *lock) answered(s *state, c int) bool {
	cl := &s.clients[c]
	op := cl.op
	cl.op = call{}
	switch op.kind {
	case acquire:
		cl.stray = cl.stray || op.again
		switch {
		case op.at == denied:
			return true // waits
		case m.left(op) == 0:
			return m.undone(s, c)
		}
		cl.mode, cl.holds, cl.trust, cl.token = holding, 1, m.left(op), op.token
	case reentry, unlock, settle, extend:
		if cl.mode != holding {
			return true // lost meanwhile
		}
		if op.at == gone {
			m.end(s, c, false)
			return true
		}
		cl.stray = cl.stray || op.again && op.kind != extend
		if op.kind == reentry {
			cl.holds = op.count
		}
		if op.kind == reentry || op.kind == extend {
			cl.trust, cl.lease = max(cl.trust, m.left(op)), op.lease
		}
	case release:
		cl.stray = cl.stray || op.again
		if cl.stray {
			return m.undone(s, c)
		}
		m.end(s, c, false)
	}
	return true
}

// renewed is what the watchdog makes of an answer.
func (m *lock) renewed(s *state, c int) {
	cl := &s.clients[c]
	r := cl.renew
	cl.renew = call{}
	switch {
	case cl.mode != holding:
	case r.at == gone:
		m.end(s, c, false)
	default:
		cl.trust = max(cl.trust, m.left(r))
	}
}

// giveUp is the end of the retry budget.
func (m *lock) giveUp(s *state, c int) bool {
	cl := &s.clients[c]
	op := cl.op
	m.abandon(s, c, op)
	cl.op = call{}
	switch op.kind {
	case acquire, release:
		cl.stray = true
		return m.undone(s, c)
	case reentry, unlock, settle:
		cl.stray = true
		cl.op = call{}
		if op.kind != settle { // which is tried once: the next command puts right what it could not
			cl.op = call{kind: settle, at: sent, count: cl.holds, lease: cl.lease}
		}
	}
	return true
}

// undone ends a client's try or hold, and begins an undo of what it may have left.
func (m *lock) undone(s *state, c int) bool {
	owner := id(c, s.clients[c].gen)
	m.end(s, c, true)
	return m.beginUndo(s, owner)
}

func (m *lock) beginUndo(s *state, owner uint8) bool {
	return m.off.has(undo) || m.keep(s, message{kind: undoer, id: owner, count: 1})
}

// end makes a client idle, and gives it another owner id if something of this one is still on its
// way.
func (m *lock) end(s *state, c int, undoing bool) {
	cl := &s.clients[c]
	gen := cl.gen
	if cl.stray && !m.off.has(freshOwner) || undoing && !m.off.has(freshUndo) {
		gen++
	}
	m.abandon(s, c, cl.op)
	m.abandon(s, c, cl.renew)
	*cl = client{gen: gen, wishes: cl.wishes}
}

// left is how long a lease can be trusted whose call was sent so long ago.
func (m *lock) left(op call) uint8 {
	if m.off.has(fromSending) {
		return m.trust(op.lease)
	}
	return m.trust(op.lease) - min(op.age, m.trust(op.lease))
}

// trust is less than the lease, by what two clocks may differ.
func (m *lock) trust(lease uint8) uint8 { return lease - 1 }

// leaves are callers that give up while they wait, and processes that die.
func (m *lock) leaves(s state, c int, emit func(string, state)) {
	cl := &s.clients[c]
	if cl.mode == trying && cl.op.at == none {
		n := s
		ok := true
		if cl.stray && !m.off.has(undoDenied) {
			ok = m.undone(&n, c)
		} else {
			m.end(&n, c, false)
		}
		if ok {
			emit(labels[c][lWaited], n)
		}
	}
	if c >= m.frail {
		return
	}
	if s.leaves > 0 && cl.mode == trying && cl.op.at != none {
		n := s
		n.leaves--
		if m.cancel(&n, c) {
			emit(labels[c][lCancel], n)
		}
	}
	if s.crashes > 0 && (cl.mode != idle || m.busy(&s, c)) {
		n := s
		n.crashes--
		m.crash(&n, c)
		emit(labels[c][lCrash], n)
	}
}
