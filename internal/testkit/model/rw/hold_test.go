package rw

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/lua"
)

// lease is the lease of a client's holds, in ticks.
func (m *rwlock) lease(c int, long bool) uint8 {
	if long {
		return m.long
	}
	return m.leases[c]
}

// by is the letter of a hold in labels: a small one if it reads.
func by(c int, side uint8) int { return [sides]int{'A', 'a'}[side] + c }

// holds are what the user of a client may do with a hold. While it waits for the other side it does
// nothing.
func (m *rwlock) holds(s state, c int, side uint8, out *steps) {
	cl := &s.clients[c]
	h := &cl.held[side]
	if h.id == 0 || cl.id != 0 {
		return
	}
	if h.holds < m.depth {
		m.recounts(s, c, side, h.holds+1, out)
	}
	if h.holds > 1 {
		m.recounts(s, c, side, h.holds-1, out)
	} else {
		m.unlocks(s, c, side, out)
	}
	if m.long > 0 && !h.long && c < m.frail {
		n := s
		nh := &n.clients[c].held[side]
		nh.long = true
		request := message{kind: kindOf(side, renewWrite, renewRead), id: h.id, lease: m.long}
		if a := m.run(&n, request, false); a.status == lua.Done {
			nh.trust = max(nh.trust, m.long-1)
		} else {
			m.end(&n, c, side, false, true)
		}
		out.Loud(by(c, side), "has a longer lease", n)
	}
}

// recounts is a re-entry, or an unlock that is not the last. What gets no answer is sent again.
func (m *rwlock) recounts(s state, c int, side, count uint8, out *steps) {
	h := &s.clients[c].held[side]
	request := message{kind: kindOf(side, recountWrite, renewRead), id: h.id, count: count, lease: m.lease(c, h.long)}
	set := func(n *state) {
		nh := &n.clients[c].held[side]
		if a := m.run(n, request, false); a.status != lua.Done {
			m.end(n, c, side, false, true)
			return
		}
		if count > nh.holds {
			nh.trust = max(nh.trust, request.lease-1)
		}
		nh.holds = count
	}
	n := s
	set(&n)
	if count > h.holds {
		out.Loud(by(c, side), "re-enters", n)
	} else {
		out.Quiet(by(c, side), "unlocks, but not the last", n)
	}
	if c >= m.frail || !model.Spend(&s.faults) {
		return
	}
	h.stray = true
	n = s
	m.run(&n, request, false)
	set(&n)
	out.Loud(by(c, side), "says how often it holds, hears nothing and says it again", n)
	m.keep(&s, request)
	set(&s)
	out.Loud(by(c, side), "says how often it holds, and again, and the first may come late", s)
}

// unlocks is the last unlock of a hold.
func (m *rwlock) unlocks(s state, c int, side uint8, out *steps) {
	h := &s.clients[c].held[side]
	request := message{kind: kindOf(side, releaseWrite, releaseRead), id: h.id}
	n := s
	if side == write && m.rest > 0 {
		request.kind = leaveWrite
		a := m.run(&n, request, false)
		m.spend(&n, h.id) // the hash may have it still
		if a.status == lua.Done {
			n.stays = m.rest
		}
		m.end(&n, c, side, false, false)
		out.Quiet(by(c, side), "unlocks early what is to stay taken", n)
		return
	}
	m.run(&n, request, false)
	m.end(&n, c, side, false, false)
	out.Quiet(by(c, side), "unlocks the last", n)
	if c >= m.frail || !model.Spend(&s.faults) {
		return
	}
	n = s
	m.run(&n, request, false)
	m.end(&n, c, side, true, false)
	out.Loud(by(c, side), "unlocks the last and hears nothing", n)
	m.keep(&s, request)
	m.end(&s, c, side, true, false)
	out.Loud(by(c, side), "unlocks the last, which may come late", s)
}

// end is the end of a hold. What may be left of it, or come, is given back.
func (m *rwlock) end(s *state, c int, side uint8, stray, lost bool) {
	h := s.clients[c].held[side]
	stray = stray || h.stray
	s.clients[c].held[side] = hold{}
	if stray || h.tainted || lost {
		m.spend(s, h.id)
	}
	if stray {
		m.beginUndo(s, side, h.id, true)
	}
}

// renewals are the watchdog's. One is sent at a time.
func (m *rwlock) renewals(s state, c int, side uint8, out *steps) {
	h := &s.clients[c].held[side]
	if h.id == 0 {
		return
	}
	if h.renewed > 0 {
		n := s
		nh := &n.clients[c].held[side]
		nh.trust, nh.renewed = max(h.trust, h.renewed), 0
		out.Quiet(by(c, side), "gets the answer to its renewal", n)
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
		m.end(&n, c, side, false, true)
	} else {
		n.clients[c].held[side].renewed = lease - 1
	}
	out.Loud(by(c, side), "renews", n)
	if n := s; model.Spend(&n.faults) && c < m.frail {
		n.clients[c].held[side].tainted = true
		m.keep(&n, request)
		out.Loud(by(c, side), "renews, which may come late", n)
	}
}
