package rw

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/lua"
)

// next takes every step that can be taken in s. A request that is slow is one that is sent later. What is late
// all the same was sent before its sender went on without it. Answers that make a difference to trust travel
// on their own. A message that wakes is there until its client asks, because what it tells is older than that.
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

// looks is after how long a writer looks that waits, at the latest: a third of the time for which
// its place counts.
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
func (cl *client) quit() {
	*cl = client{held: cl.held, gen: cl.gen, wishes: cl.wishes}
}

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

// listens is the subscription of a client that waits. Its confirmation is a reason to ask once
// more.
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
