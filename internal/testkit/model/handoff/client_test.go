package handoff

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

func (m *hand) next(s state, out *steps) {
	for c := range maxClients {
		m.wants(s, c, out)
		m.holds(s, c, out)
		m.renewals(s, c, out)
		m.answers(s, c, out)
		m.fails(s, c, out)
	}
	m.network(s, out)
	m.time(s, out)
}

// wants are the wishes of owners, and what who is refused does.
func (m *hand) wants(s state, c int, out *steps) {
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
			out.Loud('A'+c, "an owner wants the lock", n)
		case cl.waits[o]:
			n := s
			n.clients[c].waits[o] = false
			out.Quiet('A'+c, "has waited long enough", n)
		}
	}
	m.tryBeside(s, c, out)
	if cl.mode != trying || cl.op.at != server.None {
		return
	}
	n := s
	n.clients[c].op = command{kind: acquire, at: server.Sent, owner: cl.id, again: cl.stray}
	out.Loud('A'+c, "tries again", n)
	n = s
	m.finish(&n, c, false)
	out.Quiet('A'+c, "has waited long enough", n)
}

// tryBeside are attempts of owners that do not wait for the one in front.
func (m *hand) tryBeside(s state, c int, out *steps) {
	if s.clients[c].mode == idle || s.clients[c].try.at != server.None || !model.Spend(&s.tries) {
		return
	}
	for o := range uint8(maxOwners) {
		n := s
		cl := &n.clients[c]
		if cl.front != o+1 && !cl.waits[o] {
			cl.try = command{kind: acquire, at: server.Sent, owner: ownerID(c, o, cl.gens[o])}
			out.Loud('A'+c, "an owner tries to get it beside the one in front", n)
		}
	}
}

// advance puts whoever waits in front, to ask for the lock, or nobody.
func (m *hand) advance(s *state, c int) {
	cl := &s.clients[c]
	*cl = client{gens: cl.gens, waits: cl.waits, wishes: cl.wishes, try: cl.try}
	if m.step(cl, c) {
		cl.mode, cl.op = trying, command{kind: acquire, at: server.Sent, owner: cl.id}
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
func (m *hand) holds(s state, c int, out *steps) {
	cl := &s.clients[c]
	if cl.mode != holding || cl.op.at != server.None {
		return
	}
	n := s
	if m.enters && !cl.entered {
		n.clients[c].entered = true
		n.clients[c].op = command{kind: recount, at: server.Sent, owner: cl.id}
		out.Loud('A'+c, "re-enters", n)
	}
	if cl.waits == [maxOwners]bool{} || cl.stray && !m.off.Has(strayGrant) ||
		cl.trust*2 <= m.lease && !m.off.Has(halfLease) {
		n = s
		m.release(&n, c)
		out.Quiet('A'+c, "unlocks and releases", n)
		return
	}
	if cl.next != 0 && cl.next <= cl.last { // 0: they are used up
		n = s
		n.wrong.If(cl.trust*2 <= m.lease, errShort)
		m.handOn(n, c, out)
	}
	n = s
	n.clients[c].mode = passing
	n.clients[c].op = command{kind: passing, at: server.Sent, owner: cl.id}
	out.Quiet('A'+c, "unlocks and passes", n)
}

// release begins the last unlock's release: the watch is over.
func (m *hand) release(s *state, c int) {
	cl := &s.clients[c]
	m.forget(s, c)
	cl.mode, cl.op = leaving, command{kind: release, at: server.Sent, owner: cl.id}
}

// forget ends the watch: what comes back of renewals is nobody's.
func (m *hand) forget(s *state, c int) {
	cl := &s.clients[c]
	m.abandon(s, cl.renew)
	cl.renew, cl.trust = command{}, 0
}

// handOn makes the one who waits the holder; the second way is that it leaves in that moment.
func (m *hand) handOn(s state, c int, out *steps) {
	cl := &s.clients[c]
	id := cl.id
	if !m.off.Has(handedFresh) {
		cl.retire(c, cl.id)
	}
	if !m.step(cl, c) {
		return
	}
	cl.mode, cl.entered, cl.stray, cl.id = holding, false, false, id // a straggler is the one's before
	m.gets(&s, c, cl.next)
	cl.next++
	out.Quiet('A'+c, "hands the lock on", s)
	if m.leavers {
		if m.off.Has(leaverGives) {
			m.forget(&s, c)
			m.advance(&s, c)
		} else {
			m.giveBack(&s, c, undoLast)
		}
		out.Quiet('A'+c, "hands the lock on to one who leaves", s)
	}
}

// gets gives the holder its token.
func (m *hand) gets(s *state, c int, token uint8) {
	s.wrong.If(token <= s.top, model.ErrToken)
	s.top = max(s.top, token)
}

// finish ends the grant in front. With a straggler it is undone.
func (m *hand) finish(s *state, c int, undo bool) {
	if undo || s.clients[c].stray {
		m.giveBack(s, c, 1)
		return
	}
	m.forget(s, c)
	m.abandon(s, s.clients[c].op)
	m.advance(s, c)
}

// giveBack ends the grant in front with releases in the background from that step of an undo on.
func (m *hand) giveBack(s *state, c int, step uint8) {
	cl := &s.clients[c]
	m.forget(s, c)
	m.abandon(s, cl.op)
	id := cl.id
	cl.retire(c, id)
	m.advance(s, c)
	m.undo(s, id, step)
}

// renewals are what the watchdog sends.
func (m *hand) renewals(s state, c int, out *steps) {
	cl := &s.clients[c]
	if cl.mode != holding && cl.mode != passing || cl.trust >= m.lease-1 || cl.renew.at != server.None {
		return
	}
	cl.renew = command{kind: renewal, at: server.Sent, owner: cl.id}
	out.Loud('A'+c, "renews", s)
}
