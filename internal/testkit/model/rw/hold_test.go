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

// holds are what the user of a client may do with a hold. While it waits for the other side it does nothing.
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

// next takes every step possible in s. A slow request is sent later; a late one was sent before its sender went on without it.
// Answers that make a difference to trust travel alone. A message that wakes, being older, waits until its client asks.
func (m *rwlock) next(s state, out *steps) {
	for c := range m.clients {
		if s.clients[c].dead {
			continue
		}
		m.wants(s, c, out)
		m.asks(s, c, out)
		m.listens(s, c, out)
		m.leaves(s, c, out)
		for side := range sides {
			m.holds(s, c, side, out)
			m.renewals(s, c, side, out)
		}
	}
	m.network(s, out)
	m.operator(s, out)
	m.time(s, out)
}

// wants are what the user of a client may want next.
func (m *rwlock) wants(s state, c int, out *steps) {
	cl := &s.clients[c]
	if cl.id != 0 || cl.gen >= gens {
		return
	}
	id := ownerID(c, cl.gen)
	for side := range sides {
		other := &cl.held[1-side]
		switch {
		case cl.wishes[side] == 0 || cl.held[side].id != 0:
			continue
		case side == write && other.id != 0 && !m.off.Has(upgrade):
			continue // ErrUpgrade: nothing is sent
		}
		n := s
		nc := &n.clients[c]
		nc.wishes[side]--
		nc.id, nc.side, nc.wake = id, side, true
		out.Loud('A'+c, [sides]string{"wants to write", "wants to read"}[side], n)
	}
}

// asks are attempts to get the lock, and what comes of them.
func (m *rwlock) asks(s state, c int, out *steps) {
	cl := &s.clients[c]
	if cl.granted != 0 {
		n := s
		m.take(&n, c)
		out.Quiet('A'+c, "gets the answer", n)
		return
	}
	if cl.id == 0 || !cl.wake {
		return
	}
	request := m.attempt(cl)
	n := s
	m.answered(&n, c, m.run(&n, request, false))
	out.Quiet('A'+c, "asks", n)
	if c >= m.frail || !model.Spend(&s.faults) {
		return
	}
	cl.stray = true
	n = s
	m.run(&n, request, false)
	out.Loud('A'+c, "asks and hears nothing", n)
	m.keep(&s, request)
	out.Loud('A'+c, "asks, which may come late", s)
}

// attempt is the request of a client that asks.
func (m *rwlock) attempt(cl *client) message {
	if cl.side == read {
		return message{kind: askRead, id: cl.id, count: cl.ticket, again: cl.stray, beside: cl.held[write].id}
	}
	return message{kind: askWrite, id: cl.id, again: cl.stray && !m.off.Has(againWaiting)}
}

// answered is what a client makes of the answer to its attempt.
func (m *rwlock) answered(s *state, c int, a answer) {
	cl := &s.clients[c]
	cl.wake = false
	if a.status == lua.Done {
		cl.granted, cl.lasts = a.token, m.lease(c, false)-1
		return
	}
	if cl.side == write {
		cl.placed, cl.look = true, min(a.left, m.looks())
		s.wrong.If(s.server.writes(cl.id), model.ErrItself)
	} else {
		cl.look = a.left
		if !cl.asked { // who writes is the one that it lets go first
			cl.let = s.mode == writing && !s.server.writes(cl.id)
		}
		if cl.ticket == 0 {
			cl.ticket = a.ticket
		}
	}
	cl.asked = true
}

// looks is after how long a writer looks that waits, at the latest: a third of the time for which its place counts.
func (m *rwlock) looks() uint8 { return max(m.place/3, 1) }

// take begins a hold.
func (m *rwlock) take(s *state, c int) {
	cl := &s.clients[c]
	if cl.lasts == 0 && !m.off.Has(fromSending) {
		m.undone(s, c, true)
		return
	}
	left := cl.lasts
	if m.off.Has(fromSending) {
		left = m.lease(c, false) - 1
	}
	cl.held[cl.side] = hold{id: cl.id, holds: 1, trust: left, token: cl.granted, stray: cl.stray}
	cl.quit()
}

// quit ends what a client asks for.
func (cl *client) quit() { *cl = client{held: cl.held, gen: cl.gen, wishes: cl.wishes} }

// undone ends what a client asks for, and begins to give back what the server may have of it, or get.
func (m *rwlock) undone(s *state, c int, stray bool) {
	cl := &s.clients[c]
	id, side, placed := cl.id, cl.side, cl.placed
	stray = stray || cl.stray
	if cl.quit(); stray || placed {
		m.spend(s, id)
		m.beginUndo(s, side, id, stray)
	}
}

// spend makes a client use another owner id from now on.
func (m *rwlock) spend(s *state, id uint8) {
	c := clientOf(id)
	if cl := &s.clients[c]; cl.gen < gens && ownerID(c, cl.gen) == id && !m.off.Has(fresh) {
		cl.gen++
	}
}

func (m *rwlock) beginUndo(s *state, side, id uint8, stray bool) {
	step := uint8(model.UndoLast)
	if stray && !m.off.Has(undoAgain) {
		step = model.UndoFirst
	}
	if !m.off.Has(undo) {
		m.work(s, message{kind: kindOf(side, undoWrite, undoRead), id: id, step: step})
	}
}

// listens is the subscription of a client that waits. Its confirmation is a reason to ask once more.
func (m *rwlock) listens(s state, c int, out *steps) {
	cl := &s.clients[c]
	if cl.id == 0 || !cl.asked || cl.granted != 0 {
		return
	}
	n := s
	switch cl.sub {
	case model.Off:
		n.clients[c].sub = model.Heard
		n.clients[c].wake = cl.wake || !m.off.Has(listensThen)
		out.Quiet('A'+c, "listens", n)
	case model.Severed:
		if n.clients[c].sub = model.Heard; !m.off.Has(noticesBreak) {
			n.clients[c].wake = true
		}
		out.Quiet('A'+c, "notices that it was cut off", n)
	case model.Heard:
		if s.breaks > 0 && c < m.frail {
			n.breaks--
			n.clients[c].sub, n.clients[c].wake = model.Severed, false
			out.Loud('A'+c, "is cut off from messages", n)
		}
	}
}

// leaves are callers that wait no longer, attempts that are given up, and processes that die.
func (m *rwlock) leaves(s state, c int, out *steps) {
	cl := &s.clients[c]
	if c >= m.frail {
		return
	}
	if n := s; model.Spend(&n.crashes) && (cl.id != 0 || cl.held != [sides]hold{} || m.busy(&s, c)) {
		m.crash(&n, c)
		out.Loud('A'+c, "dies", n)
	}
	if cl.id == 0 || !model.Spend(&s.leaves) {
		return
	}
	n := s
	m.undone(&n, c, cl.granted != 0)
	out.Loud('A'+c, "its caller leaves", n)
	if cl.wake && cl.granted == 0 {
		r := m.attempt(cl)
		r.kind = kindOf(cl.side, lateWrite, lateRead)
		cl.quit()
		m.spend(&s, r.id)
		m.work(&s, r)
		out.Loud('A'+c, "its caller leaves while it asks", s)
	}
}
