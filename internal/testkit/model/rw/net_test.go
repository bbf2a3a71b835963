package rw

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/lua"
)

// run executes a request and judges what it did to whom, whatever a client believes. straggler: nobody waits for the answer.
func (m *rwlock) run(s *state, r message, straggler bool) (a answer) {
	before := s.server
	c := 0
	if r.id != 0 {
		c = clientOf(r.id)
	}
	switch r.kind {
	case askWrite, lateWrite, askRead, lateRead:
		if r.step == model.Aged && !m.off.Has(lateness) {
			return answer{status: lua.Late}
		}
		if r.kind == askRead || r.kind == lateRead {
			a = s.read(m.off, r.id, m.leases[c], r.count, r.beside)
			m.judgeRead(s, &before, r, a)
		} else {
			a = s.write(m.off, r.id, m.leases[c], m.place, r.again)
			m.judgeWrite(s, &before, r, a)
		}
	case releaseWrite, undoWrite:
		a = s.releaseWrite(m.off, r.id)
	case releaseRead, undoRead:
		a = s.releaseRead(m.off, r.id, m.heard(s))
	case leaveWrite:
		a = s.leave(m.off, r.id, m.rest)
	case recountWrite:
		a = s.recountWrite(m.off, r.id, r.count, r.lease)
	case renewWrite:
		a = s.renewWrite(m.off, r.id, r.lease)
	case renewRead:
		a = s.renewRead(m.off, r.id, r.lease, r.count)
	}
	if side, counts := counted(r, a); counts && !(straggler && r.ask()) { // an attempt that is late says no count
		bit := uint32(1) << (r.id - 1 + side*ids)
		if s.dirty &^= bit; straggler {
			s.dirty |= bit
		}
	}
	m.judge(s, &before, r.kind, 1<<(r.id-1))
	if a.told {
		m.tell(s)
	}
	m.judgeTold(s, &before)
	return a
}

// counted reports whether a request has said an owner's count.
func counted(r message, a answer) (side uint8, is bool) {
	switch {
	case a.status != lua.Done:
		return 0, false
	case r.kind == askWrite || r.kind == recountWrite:
		return write, true
	case r.kind == askRead || r.kind == renewRead && r.count > 0:
		return read, true
	}
	return 0, false
}

// heard reports whether anybody listens.
func (m *rwlock) heard(s *state) bool {
	return slices.ContainsFunc(s.clients[:], func(cl client) bool { return cl.sub == model.Heard })
}

// tell gives all who listen a reason to ask.
func (m *rwlock) tell(s *state) {
	for c := range m.clients {
		if cl := &s.clients[c]; cl.sub == model.Heard && cl.granted == 0 {
			cl.wake = true
		}
	}
}

// keep leaves a request to the network: it may arrive at any time from here on, or never; without room for it, never.
func (m *rwlock) keep(s *state, r message) {
	if r.kind == askRead {
		r.again = false // of which the script knows nothing
	}
	given := func(r message) bool { return !r.background() }
	s.full.Cut(model.Count(s.net[:], given) < m.messages && model.Put(s.net[:], r), &m.cut)
}

// work does something in the background.
func (m *rwlock) work(s *state, r message) { s.full.Need(model.Put(s.net[:], r), &m.cut) }

// network is what happens to messages that no caller waits for.
func (m *rwlock) network(s state, out *steps) {
	for i, r := range model.Different(s.net[:]) {
		c := clientOf(r.id)
		n := s
		model.Take(n.net[:], i)
		switch r.kind {
		case undoWrite, undoRead:
			if r.step != model.UndoPause || m.still && !n.expects(r.id) { // else see netTick
				m.undoStep(&n, r)
				out.Quiet('A'+c, "gives back", n)
			}
		case lateWrite, lateRead:
			m.lateAnswer(s, i, r, out)
		default:
			out.Quiet('A'+c, "a late request is lost", n)
			m.run(&n, r, true)
			out.Quiet('A'+c, "a late request arrives", n)
		}
	}
}

func (m *rwlock) undoStep(s *state, r message) {
	if r.step == model.UndoPause {
		r.step = model.UndoLast
	}
	m.run(s, r, false)
	if r.step++; r.step <= model.UndoLast {
		m.work(s, r)
	}
}

// expects reports whether an attempt of an owner's may still arrive.
func (s *state) expects(id uint8) bool {
	return model.Count(s.net[:], func(r message) bool { return r.id == id && r.ask() }) > 0
}

// lateAnswer is an attempt that runs after its caller has left. Its answer comes at once: nothing waits in between.
func (m *rwlock) lateAnswer(s state, i int, r message, out *steps) {
	c, side := clientOf(r.id), write
	if r.kind == lateRead {
		side = read
	}
	model.Take(s.net[:], i)
	n := s
	a := m.run(&n, r, false)
	if a.status == lua.Done || r.again || side == write && !m.off.Has(undoPlace) {
		m.beginUndo(&n, side, r.id, true)
	}
	out.Quiet('A'+c, "is answered after its caller left", n)
	if !model.Spend(&s.faults) {
		return
	}
	m.keep(&s, message{kind: kindOf(side, askWrite, askRead), id: r.id, count: r.count, again: r.again, beside: r.beside})
	m.beginUndo(&s, side, r.id, true)
	out.Loud('A'+c, "gets no answer after its caller left", s)
}

// busy reports whether a client does something in the background.
func (m *rwlock) busy(s *state, c int) bool {
	return model.Count(s.net[:], func(r message) bool { return r.background() && clientOf(r.id) == c }) > 0
}

// crash ends a process with all that it does in the background. What it has sent may arrive.
func (m *rwlock) crash(s *state, c int) {
	gone := func(id uint8) {
		if id != 0 {
			s.crashed |= 1 << (id - 1)
		}
	}
	its := func(r message) bool { return r.background() && clientOf(r.id) == c }
	for _, r := range model.Extract(s.net[:], its) {
		gone(r.id)
		if r.kind == lateWrite || r.kind == lateRead {
			r.kind -= lateWrite - askWrite
			m.keep(s, r)
		}
	}
	cl := &s.clients[c]
	gone(cl.id)
	if cl.wake && cl.granted == 0 {
		m.keep(s, m.attempt(cl))
	}
	for _, h := range cl.held {
		gone(h.id)
	}
	*cl = client{dead: true, gen: gens}
}

// operator is somebody who looks who has the lock, and then forces these out.
func (m *rwlock) operator(s state, out *steps) {
	if s.seenBy != nobody {
		n := s
		n.seen, n.seenBy, n.forced = 0, nobody, true
		var a answer
		if s.seenBy == writing {
			for id := range uint8(ids) {
				if s.seen == 1<<id {
					a = n.releaseWrite(m.off, id+1)
				}
			}
		} else {
			a = n.force(m.off, s.seen)
		}
		m.judge(&n, &s.server, releaseWrite, s.seen)
		if a.told {
			m.tell(&n)
		}
		m.judgeTold(&n, &s.server)
		out.Quiet(0, "somebody forces out who had it", n)
		return
	}
	if s.mode == nobody || !model.Spend(&s.forces) {
		return
	}
	s.seenBy = s.mode
	for id := range uint8(ids) {
		if s.mode == writing && s.writer == id+1 || s.mode == reading && s.reads(id+1) {
			s.seen |= 1 << id
		}
	}
	out.Loud(0, "somebody looks who has the lock", s)
}

// time is a tick of all clocks, and what can happen to the server's data.
func (m *rwlock) time(s state, out *steps) {
	n := s
	n.tick()
	if m.losses > 0 {
		n.clock++
	}
	model.Less(&n.stays)
	for c := range m.clients {
		m.clientTick(&n, c)
	}
	m.netTick(&n)
	if !m.still && (m.losses == 0 || s.clock < horizon) {
		out.Quiet(0, "time passes", n)
	}
	if !model.Spend(&s.losses) {
		return
	}
	n = s
	n.server = server{clock: s.clock}
	out.Loud(0, "the server loses its keys", n)
	if s.clock > clockStep && s.token != 0 {
		s.clock -= clockStep
		out.Loud(0, "the server's clock is set back", s)
	}
}

const (
	clockStep = 3  // by which it is set back: less than a token's key lives
	horizon   = 10 // of the clock, where there is one
)

// clientTick ends what is trusted no more, and wakes who sleeps for long enough.
func (m *rwlock) clientTick(s *state, c int) {
	cl := &s.clients[c]
	model.Less(&cl.lasts)
	model.Less(&cl.waited)
	if model.Less(&cl.look) && !m.off.Has(looks) && cl.granted == 0 {
		cl.wake = true
	}
	for side := range sides {
		h := &cl.held[side]
		model.Less(&h.renewed)
		switch {
		case h.id == 0:
		case h.trust > 1:
			h.trust--
		case !m.off.Has(deadline):
			m.end(s, c, side, true, true)
		}
	}
}

// netTick makes what is late aged, ends the lives of other stragglers where they have one, and the pauses of undos.
func (m *rwlock) netTick(s *state) {
	model.Change(s.net[:], func(r message) (message, bool) {
		switch {
		case r.step == model.UndoPause:
			r.step = model.UndoLast
		case r.ask():
			r.step = model.Aged
		case !r.background() && m.brief:
			return r, false
		}
		return r, true
	})
}
