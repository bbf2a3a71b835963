package permits

import "github.com/holdfast-go/holdfast/lua"

// next calls emit for everything that can happen in s.
//
// A request travels in no time, since nothing that its sender does depends on whether it is still
// on its way: one that is slow is one that is sent later. What is late all the same was sent before
// its sender went on without it. Answers that make a difference to trust travel on their own; so do
// messages.
func (m *semaphore) next(s state, emit func(string, state)) {
	out := func(label string, n state) {
		n.compact()
		m.forget(&n)
		emit(label, n)
	}
	for w := range m.waiters {
		if c := m.home[w]; !s.paused.has(c) && !s.dead.has(c) {
			m.wanted(s, w, out)
			m.attempts(s, w, out)
			m.holds(s, w, out)
			m.leaves(s, w, out)
		}
	}
	for c := range m.clients {
		m.listens(s, c, out)
		if !s.paused.has(c) && !s.dead.has(c) {
			m.polls(s, c, out)
			m.joins(s, c, out)
		}
		m.process(s, c, out)
	}
	m.network(s, out)
	m.others(s, out)
	m.time(s, out)
}

// frail reports whether a waiter meets faults, and leaves.
func (m *semaphore) frail(w uint8) bool { return m.home[w] < m.harmed }

// wanted are what a user may want next.
func (m *semaphore) wanted(s state, w uint8, emit func(string, state)) {
	wr := &s.waiters[w]
	if wr.mode != away || wr.wishes == 0 || wr.gen == gens {
		return
	}
	if m.prompt && w > 0 && s.waiters[w-1].wishes > 0 {
		return // one order of arrival is enough
	}
	n := s
	n.waiters[w].wishes--
	n.waiters[w].mode, n.waiters[w].wake = asking, true
	if s.known.has(m.home[w]) {
		m.join(&n, w)
	}
	emit(waiterLabels[w][lWants], n)
	if !m.tries || w+1 < m.waiters {
		return
	}
	n = s
	n.waiters[w].wishes--
	if a := m.run(&n, message{kind: acquire, id: ownerID(w, wr.gen)}); a.status == lua.Done {
		n.waiters[w].mode, n.waiters[w].granted, n.waiters[w].lasts = asking, a.token, m.lease-1
	}
	emit(waiterLabels[w][lTries], n)
}

// join gives a waiter a place in the line of its client. It asks for one at the server as soon as
// its client listens.
func (m *semaphore) join(s *state, w uint8) {
	wr := &s.waiters[w]
	wr.mode, wr.wake = entering, false
	if s.known.has(m.home[w]) {
		wr.mode, wr.wake = waiting, true
	}
}

// refused is what a waiter makes of a refusal: a message of a grant from before it is not to be
// trusted. It told of another grant to the same owner, or of one that was lost.
func (m *semaphore) refused(s *state, w uint8) {
	wr := &s.waiters[w]
	wr.asked = true
	if m.off.has(ownMessage) {
		wr.wake = wr.handed != 0
		return
	}
	wr.handed, wr.stands = 0, 0
	for i := range s.mail {
		if s.mail[i].owner == ownerID(w, wr.gen) {
			s.mail[i].old = true
		}
	}
}

// attempts are requests for permits, and what comes of them.
func (m *semaphore) attempts(s state, w uint8, emit func(string, state)) {
	wr := &s.waiters[w]
	if wr.granted != 0 {
		n := s
		if m.take(&n, w, wr.granted, wr.lasts) {
			emit(waiterLabels[w][lAnswer], n)
		}
		return
	}
	if wr.mode == waiting && wr.asked && wr.wake && wr.stands > 0 {
		n := s
		if m.take(&n, w, wr.handed, wr.stands) {
			emit(waiterLabels[w][lTakes], n)
		}
	}
	if wr.mode != asking && wr.mode != waiting || !wr.wake {
		return
	}
	request := message{kind: acquire, id: ownerID(w, wr.gen), again: wr.stray, place: wr.mode == waiting}
	n := s
	if m.asks(&n, w, request) {
		emit(waiterLabels[w][lAsks], n)
	}
	if s.faults == 0 || !m.frail(w) {
		return
	}
	n = s
	n.faults--
	n.waiters[w].stray = true
	m.run(&n, request)
	emit(waiterLabels[w][lAskedUnheard], n)
	n = s
	n.faults--
	n.waiters[w].stray = true
	m.keep(&n, request)
	emit(waiterLabels[w][lAskedLate], n)
}

// asks is a question with its answer. False: no room in the bounds.
func (m *semaphore) asks(s *state, w uint8, request message) bool {
	wr := &s.waiters[w]
	wr.wake = false
	switch a := m.run(s, request); {
	case a.status == lua.Done:
		wr.granted, wr.lasts = a.token, m.lease-1
	case a.status == excess: // its caller gets an error
		if wr.mode == waiting {
			return m.undone(s, w, wr.stray)
		}
		return m.end(s, w)
	case wr.mode == asking:
		m.join(s, w)
	default:
		m.refused(s, w)
	}
	return true
}

// take begins a hold.
func (m *semaphore) take(s *state, w, token, left uint8) bool {
	wr := &s.waiters[w]
	if left == 0 {
		return m.undone(s, w, true)
	}
	*wr = waiter{mode: has, gen: wr.gen, wishes: wr.wishes, stray: wr.stray, token: token, trust: left}
	return true
}

// joins are the questions of several waiters of one client for their first places, in one script. It
// is for those who want one permit each.
func (m *semaphore) joins(s state, c uint8, emit func(string, state)) {
	var owners, by [maxWaiters]uint8
	i := 0
	for w := range m.waiters {
		wr := &s.waiters[w]
		if m.home[w] == c && wr.mode == waiting && wr.wake && !wr.asked && !wr.stray && m.want[w] == 1 {
			owners[i], by[i] = ownerID(w, wr.gen), w
			i++
		}
	}
	if i < 2 {
		return
	}
	n := s
	// Its answer is of a moment before it: messages of what it grants are trusted.
	for _, w := range by[:i] {
		m.refused(&n, w)
		n.waiters[w].wake = false
	}
	a := n.join(m.terms(&n), owners)
	m.done(&n, &s.keys, message{kind: joins, id: owners[0]}, a)
	if a.status == lua.Done { // they ask one by one, and none of them has been refused
		n = s
	} else {
		emit(clientLabels[c][lJoins], n)
	}
	if s.faults == 0 || c >= m.harmed {
		return
	}
	for _, unheard := range []bool{true, false} { // the answer is lost, or the request
		n = s
		n.faults--
		for _, w := range by[:i] {
			n.waiters[w].stray = true
		}
		if unheard {
			a := n.join(m.terms(&n), owners)
			m.done(&n, &s.keys, message{kind: joins, id: owners[0]}, a)
			emit(clientLabels[c][lJoinUnheard], n)
		} else {
			emit(clientLabels[c][lJoinLost], n)
		}
	}
}

// holds are the renewals and the end of a hold.
func (m *semaphore) holds(s state, w uint8, emit func(string, state)) {
	wr := &s.waiters[w]
	if wr.mode != has || wr.trust == 0 {
		return
	}
	n := s
	release := message{kind: release, id: ownerID(w, wr.gen)}
	m.run(&n, release)
	if m.end(&n, w) {
		emit(waiterLabels[w][lUnlocks], n)
	}
	if s.faults > 0 && m.frail(w) {
		n = s
		n.faults--
		m.run(&n, release)
		if m.undone(&n, w, true) {
			emit(waiterLabels[w][lUnlockUnheard], n)
		}
		n = s
		n.faults--
		m.keep(&n, release)
		if m.undone(&n, w, true) {
			emit(waiterLabels[w][lUnlockLate], n)
		}
	}
	switch {
	case wr.renewed > 0:
		n := s
		n.waiters[w].trust, n.waiters[w].renewed = max(wr.trust, wr.renewed), 0
		emit(waiterLabels[w][lRenewed], n)
	case wr.trust < m.lease-1:
		m.renews(s, w, emit)
	}
}

func (m *semaphore) renews(s state, w uint8, emit func(string, state)) {
	request := message{kind: renewal, id: ownerID(w, s.waiters[w].gen)}
	n := s
	if a := m.run(&n, request); a.status == lua.Done {
		n.waiters[w].renewed = m.lease - 1
		emit(waiterLabels[w][lRenews], n)
		if s.faults > 0 && m.frail(w) {
			n.faults--
			n.waiters[w].renewed = 0
			emit(waiterLabels[w][lRenewalUnheard], n)
		}
	} else if m.end(&n, w) {
		emit(waiterLabels[w][lRenews], n)
	}
	if s.faults > 0 && m.frail(w) {
		n = s
		n.faults--
		m.keep(&n, request)
		emit(waiterLabels[w][lRenewalLate], n)
	}
}

// leaves are callers that wait no longer, and attempts that are given up.
func (m *semaphore) leaves(s state, w uint8, emit func(string, state)) {
	wr := &s.waiters[w]
	if wr.mode == away || wr.mode == has {
		return
	}
	n := s
	if wr.stray && wr.wake && m.undone(&n, w, true) {
		emit(waiterLabels[w][lGivesUp], n)
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
		emit(waiterLabels[w][lLeaves], n)
	}
	if wr.mode != entering && wr.wake && wr.granted == 0 {
		n = s
		n.leaves--
		m.away(&n, w)
		if n.put(message{kind: late, id: ownerID(w, wr.gen), again: wr.stray, place: wr.mode == waiting}) {
			emit(waiterLabels[w][lLeavesAsking], n)
		} else {
			m.cut++
		}
	}
}

// end is the end of a hold or of a wait; what may have been left is given back. False: no room in
// the bounds.
func (m *semaphore) end(s *state, w uint8) bool {
	if s.waiters[w].stray {
		return m.undone(s, w, true)
	}
	m.away(s, w)
	return true
}

// undone ends a wait or a hold, and begins to give back what the server may have, or get, of it.
func (m *semaphore) undone(s *state, w uint8, stray bool) bool {
	owner := ownerID(w, s.waiters[w].gen)
	stray = s.waiters[w].stray || stray
	m.away(s, w)
	if m.beginUndo(s, owner, stray) {
		return true
	}
	m.cut++
	return false
}

func (m *semaphore) beginUndo(s *state, owner uint8, stray bool) bool {
	step := uint8(undoLast)
	if stray && !m.off.has(undoAgain) {
		step = undoFirst
	}
	return m.off.has(undo) || s.put(message{kind: undoer, id: owner, step: step})
}

// away makes a waiter somebody who wants nothing, and who will be another owner.
func (m *semaphore) away(s *state, w uint8) {
	wr := &s.waiters[w]
	gen := wr.gen
	if !m.off.has(freshOwner) {
		gen++
	}
	*wr = waiter{gen: gen, wishes: wr.wishes}
}
