package rw

import "github.com/holdfast-go/holdfast/lua"

// lease is the lease of a client's holds, in ticks.
func (m *rwlock) lease(c int, long bool) uint8 {
	if long {
		return m.long
	}
	return m.leases[c]
}

// holds are what the user of a client may do with a hold. While it waits for the other side it does
// nothing.
func (m *rwlock) holds(s state, c int, side uint8, out *steps) {
	cl := &s.clients[c]
	h := &cl.held[side]
	if h.id == 0 || cl.id != 0 {
		return
	}
	text := labels[c][int(side)*lSides:]
	if h.holds < m.depth {
		m.recounts(s, c, side, h.holds+1, text[lReenter:], out)
	}
	if h.holds > 1 {
		m.recounts(s, c, side, h.holds-1, text[lPartial:], out)
	} else {
		m.unlocks(s, c, side, text, out)
	}
	if m.long > 0 && !h.long && c < m.frail {
		n := s
		nh := &n.clients[c].held[side]
		nh.long = true
		request := message{kind: kindOf(side, renewWrite, renewRead), id: h.id, lease: m.long}
		if a := m.run(&n, request, false); a.status == lua.Done {
			nh.trust = max(nh.trust, m.long-1)
		} else if !m.end(&n, c, side, false, true) {
			return
		}
		emit(text[lExtend], n)
	}
}

// recounts is a re-entry, or an unlock that is not the last. What gets no answer is sent again.
func (m *rwlock) recounts(s state, c int, side, count uint8, text []string, out *steps) {
	h := &s.clients[c].held[side]
	request := message{kind: kindOf(side, recountWrite, renewRead), id: h.id, count: count, lease: m.lease(c, h.long)}
	set := func(n *state) bool {
		nh := &n.clients[c].held[side]
		if a := m.run(n, request, false); a.status != lua.Done {
			return m.end(n, c, side, false, true)
		}
		if count > nh.holds {
			nh.trust = max(nh.trust, request.lease-1)
		}
		nh.holds = count
		return true
	}
	n := s
	if set(&n) {
		emit(text[0], n)
	}
	if s.faults == 0 || c >= m.frail {
		return
	}
	n = s
	n.faults--
	n.clients[c].held[side].stray = true
	m.run(&n, request, false)
	if set(&n) {
		emit(text[1], n)
	}
	n = s
	n.faults--
	n.clients[c].held[side].stray = true
	m.keep(&n, request)
	if set(&n) {
		emit(text[2], n)
	}
}

// unlocks is the last unlock of a hold.
func (m *rwlock) unlocks(s state, c int, side uint8, text []string, out *steps) {
	h := &s.clients[c].held[side]
	request := message{kind: kindOf(side, releaseWrite, releaseRead), id: h.id}
	last := text[lUnlock:]
	if side == write && m.rest > 0 {
		request.kind, last = leaveWrite, text[lLeave:]
	}
	n := s
	a := m.run(&n, request, false)
	if request.kind == leaveWrite {
		m.spend(&n, h.id) // the hash may have it still
		if a.status == lua.Done {
			n.stays = m.rest
		}
	}
	if m.end(&n, c, side, false, false) {
		emit(last[0], n)
	}
	if s.faults == 0 || c >= m.frail || request.kind == leaveWrite {
		return
	}
	n = s
	n.faults--
	m.run(&n, request, false)
	if m.end(&n, c, side, true, false) {
		emit(last[1], n)
	}
	n = s
	n.faults--
	m.keep(&n, request)
	if m.end(&n, c, side, true, false) {
		emit(last[2], n)
	}
}

// end is the end of a hold. What may be left of it, or come, is given back. False: the bounds have
// no room for that.
func (m *rwlock) end(s *state, c int, side uint8, stray, lost bool) bool {
	h := s.clients[c].held[side]
	stray = stray || h.stray
	s.clients[c].held[side] = hold{}
	if stray || h.tainted || lost {
		m.spend(s, h.id)
	}
	return !stray || m.beginUndo(s, side, h.id, true)
}

// renewals are the watchdog's. One is sent at a time.
func (m *rwlock) renewals(s state, c int, side uint8, out *steps) {
	h := &s.clients[c].held[side]
	if h.id == 0 {
		return
	}
	text := labels[c][int(side)*lSides:]
	if h.renewed > 0 {
		n := s
		nh := &n.clients[c].held[side]
		nh.trust, nh.renewed = max(h.trust, h.renewed), 0
		emit(text[lRenewed], n)
		return
	}
	lease := m.lease(c, h.long)
	// At once it matters only before an extension.
	if !m.renews || h.trust >= lease-1 && (m.long == 0 || h.long || c >= m.frail) {
		return
	}
	request := message{kind: kindOf(side, renewWrite, renewRead), id: h.id, lease: lease}
	n := s
	if a := m.run(&n, request, false); a.status != lua.Done {
		if m.end(&n, c, side, false, true) {
			emit(text[lRenews], n)
		}
	} else {
		n.clients[c].held[side].renewed = lease - 1
		emit(text[lRenews], n)
	}
	if s.faults > 0 && c < m.frail {
		n = s
		n.faults--
		n.clients[c].held[side].tainted = true
		m.keep(&n, request)
		emit(text[lRenewalLate], n)
	}
}
