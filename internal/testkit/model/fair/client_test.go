package fair

import "github.com/holdfast-go/holdfast/lua"

// next calls emit for everything that can happen in s.
//
// A request travels in no time, since nothing that its sender does depends on whether it is still
// on its way: one that is slow is one that is sent later. What is late all the same was sent before
// its sender went on without it. Answers that make a difference to trust travel on their own; so do
// messages.
func (m *fair) next(s state, emit func(string, state)) {
	out := func(label string, n state) {
		n.compact()
		m.forget(&n)
		emit(label, n)
	}
	for w := range m.waiters {
		if c := m.home[w]; !s.paused.has(c) && !s.dead.has(c) {
			m.wants(s, w, out)
			m.attempts(s, w, out)
			m.holds(s, w, out)
			m.leaves(s, w, out)
		}
	}
	for c := range m.clients {
		m.listens(s, c, out)
		m.polls(s, c, out)
		m.process(s, c, out)
	}
	m.network(s, out)
	m.time(s, out)
}

// frail reports whether a waiter meets faults, and leaves.
func (m *fair) frail(w uint8) bool { return m.home[w] < m.harmed }

// wants are what a user may want next.
func (m *fair) wants(s state, w uint8, emit func(string, state)) {
	wr := &s.waiters[w]
	if wr.mode != away || wr.wishes == 0 || wr.gen == gens {
		return
	}
	if m.prompt && w > 0 && s.waiters[w-1].wishes > 0 {
		return // they are all alike, so one order is enough
	}
	n := s
	n.waiters[w].wishes--
	n.waiters[w].mode, n.waiters[w].wake = asking, true
	if s.known.has(m.home[w]) {
		m.join(&n, w)
	}
	emit(waiterLabels[w][fWants], n)
	if !m.tries || w+1 < m.waiters {
		return
	}
	n = s
	n.waiters[w].wishes--
	if a := m.run(&n, message{kind: acquire, id: ownerID(w, wr.gen)}); a.status == lua.Done {
		n.waiters[w].mode, n.waiters[w].granted, n.waiters[w].lasts = asking, a.token, m.lease-1
	}
	emit(waiterLabels[w][fTries], n)
}

// join gives a waiter a place in the line of its client. It asks for one at the server as soon as
// its client listens.
func (m *fair) join(s *state, w uint8) {
	wr := &s.waiters[w]
	wr.mode, wr.wake = entering, false
	if s.known.has(m.home[w]) {
		wr.mode, wr.wake = waiting, true
	}
}

// refused is what a waiter makes of a refusal: a message of a grant from before it is not to be
// trusted. It told of another grant to the same owner, or of one that was lost.
func (m *fair) refused(s *state, w uint8) {
	wr := &s.waiters[w]
	wr.asked = true
	if m.off.has(ownMessage) {
		wr.wake = wr.handed != 0
		return
	}
	wr.handed, wr.stands, wr.run = 0, 0, run{}
	for i := range s.mail {
		if s.mail[i].owner == ownerID(w, wr.gen) {
			s.mail[i].old = true
		}
	}
}

// attempts are requests for the lock, and what comes of them.
func (m *fair) attempts(s state, w uint8, emit func(string, state)) {
	wr := &s.waiters[w]
	if wr.granted != 0 {
		n := s
		if m.take(&n, w, wr.granted, wr.lasts, run{}) {
			emit(waiterLabels[w][fAnswer], n)
		}
		return
	}
	if wr.mode == waiting && wr.asked && wr.wake && wr.stands > 0 {
		n := s
		if m.take(&n, w, wr.handed, wr.stands, wr.run) {
			emit(waiterLabels[w][fTakes], n)
		}
	}
	if wr.mode != asking && wr.mode != waiting || !wr.wake {
		return
	}
	request := message{kind: acquire, id: ownerID(w, wr.gen), again: wr.stray, place: wr.mode == waiting}
	n := s
	nw := &n.waiters[w]
	nw.wake = false
	switch a := m.run(&n, request); {
	case a.status == lua.Done:
		nw.granted, nw.lasts = a.token, m.lease-1
	case wr.mode == asking:
		m.join(&n, w)
	default:
		m.refused(&n, w)
	}
	emit(waiterLabels[w][fAsks], n)
	if s.faults == 0 || !m.frail(w) {
		return
	}
	n = s
	n.faults--
	n.waiters[w].stray = true
	m.run(&n, request)
	emit(waiterLabels[w][fAskedUnheard], n)
	n = s
	n.faults--
	n.waiters[w].stray = true
	m.keep(&n, request)
	emit(waiterLabels[w][fAskedLate], n)
}

// take begins a hold.
func (m *fair) take(s *state, w, token, left uint8, next run) bool {
	wr := &s.waiters[w]
	if left == 0 {
		return m.undone(s, w, true)
	}
	*wr = waiter{mode: has, gen: wr.gen, wishes: wr.wishes, stray: wr.stray, token: token, trust: left}
	if wr.run = next; next != (run{}) {
		wr.field = ownerID(w, wr.gen)
	}
	return true
}

// entry is who has the lock of a hold at the server.
func (s *state) entry(w uint8) uint8 {
	if wr := &s.waiters[w]; wr.field != 0 {
		return wr.field
	}
	return ownerID(w, s.waiters[w].gen)
}

// handOn ends a hold by handing the lock to the next of its run. It is false if the run has ended,
// and then the lock is to be released.
func (m *fair) handOn(s *state, w uint8) bool {
	from := s.waiters[w]
	for from.run[0] != 0 && !from.stray {
		next := from.run.pop()
		to, gen := waiterOf(next)
		wr := &s.waiters[to]
		if m.home[to] != m.home[w] || wr.gen != gen || wr.mode != waiting {
			continue // it has left, or is not ours
		}
		if (wr.stray || wr.granted != 0 || wr.handed != 0) && !m.off.has(runWaits) {
			break
		}
		m.judgeRun(s, &from, next)
		from.served.push(next)
		*wr = waiter{mode: has, gen: wr.gen, wishes: wr.wishes, token: from.token + 1, trust: from.trust,
			renewed: from.renewed, field: from.field, run: from.run, served: from.served}
		if wr.token > s.top {
			s.wrong |= oldToken
		}
		m.away(s, w, false)
		return true
	}
	s.waiters[w].run = run{}
	return false
}

// holds are the renewals and the end of a hold.
func (m *fair) holds(s state, w uint8, emit func(string, state)) {
	wr := &s.waiters[w]
	if wr.mode != has || wr.trust == 0 {
		return
	}
	n := s
	if m.handOn(&n, w) {
		emit(waiterLabels[w][fHandsOn], n)
		m.renewals(s, w, emit)
		return
	}
	release := message{kind: release, id: s.entry(w), served: wr.served}
	ended := n
	if a := m.run(&n, release); a.status == lua.Done {
		n.waiters[w].served = run{}
	}
	if m.end(&n, w) {
		emit(waiterLabels[w][fUnlocks], n)
	}
	if s.faults > 0 && m.frail(w) {
		n = ended
		n.faults--
		m.run(&n, release)
		if m.undone(&n, w, true) {
			emit(waiterLabels[w][fUnlockUnheard], n)
		}
		n = ended
		n.faults--
		m.keep(&n, release)
		if m.undone(&n, w, true) {
			emit(waiterLabels[w][fUnlockLate], n)
		}
	}
	m.renewals(s, w, emit)
}

func (m *fair) renewals(s state, w uint8, emit func(string, state)) {
	wr := &s.waiters[w]
	switch {
	case wr.renewed > 0:
		n := s
		n.waiters[w].trust, n.waiters[w].renewed = max(wr.trust, wr.renewed), 0
		emit(waiterLabels[w][fRenewed], n)
	case wr.trust < m.lease-1:
		m.renews(s, w, emit)
	}
}

func (m *fair) renews(s state, w uint8, emit func(string, state)) {
	request := message{kind: renewal, id: s.entry(w)}
	n := s
	if a := m.run(&n, request); a.status == lua.Done {
		n.waiters[w].renewed = m.lease - 1
		emit(waiterLabels[w][fRenews], n)
		if s.faults > 0 && m.frail(w) {
			n.faults--
			n.waiters[w].renewed = 0
			emit(waiterLabels[w][fRenewalUnheard], n)
		}
	} else if m.end(&n, w) {
		emit(waiterLabels[w][fRenews], n)
	}
	if s.faults > 0 && m.frail(w) {
		n = s
		n.faults--
		m.keep(&n, request)
		emit(waiterLabels[w][fRenewalLate], n)
	}
}

// leaves are callers that wait no longer, and attempts that are given up.
func (m *fair) leaves(s state, w uint8, emit func(string, state)) {
	wr := &s.waiters[w]
	if wr.mode == away || wr.mode == has {
		return
	}
	n := s
	if wr.stray && wr.wake && m.undone(&n, w, true) {
		emit(waiterLabels[w][fGivesUp], n)
	}
	if s.leaves == 0 || !m.frail(w) {
		return
	}
	n = s
	n.leaves--
	ok := false
	if wr.granted != 0 || wr.mode == waiting && !wr.stray {
		ok = m.undone(&n, w, wr.granted != 0)
	} else {
		ok = m.end(&n, w)
	}
	if ok {
		emit(waiterLabels[w][fLeaves], n)
	}
	if wr.mode != entering && wr.wake && wr.granted == 0 {
		n = s
		n.leaves--
		m.away(&n, w, true)
		if n.put(message{kind: late, id: ownerID(w, wr.gen), again: wr.stray, place: wr.mode == waiting}) {
			emit(waiterLabels[w][fLeavesAsking], n)
		} else {
			m.cut++
		}
	}
}

// end is the end of a hold or of a wait; what may have been left is given back. False: no room in
// the bounds.
func (m *fair) end(s *state, w uint8) bool {
	if s.waiters[w].stray || s.waiters[w].served != (run{}) {
		return m.undone(s, w, s.waiters[w].stray)
	}
	m.away(s, w, false)
	return true
}

// undone ends a wait or a hold, and begins to give back what the server may have, or get, of it.
func (m *fair) undone(s *state, w uint8, stray bool) bool {
	owner, served := s.entry(w), s.waiters[w].served
	if m.off.has(servedGiven) {
		served = run{}
	}
	s.waiters[w].stray = s.waiters[w].stray || stray
	stray = s.waiters[w].stray
	m.away(s, w, true)
	if m.beginUndo(s, owner, stray, served) {
		return true
	}
	m.cut++
	return false
}

func (m *fair) beginUndo(s *state, owner uint8, stray bool, served run) bool {
	step := uint8(undoLast)
	if stray && !m.off.has(undoAgain) {
		step = undoFirst
	}
	return m.off.has(undo) || s.put(message{kind: undoer, id: owner, step: step, served: served})
}

// away makes a waiter somebody who wants nothing, under another owner id if something of this one
// is still on its way.
func (m *fair) away(s *state, w uint8, undoing bool) {
	wr := &s.waiters[w]
	gen := wr.gen
	if wr.stray && !m.off.has(freshOwner) || undoing && !m.off.has(freshUndo) ||
		wr.field != 0 && !m.off.has(servedFresh) {
		gen++
	}
	*wr = waiter{gen: gen, wishes: wr.wishes}
}
