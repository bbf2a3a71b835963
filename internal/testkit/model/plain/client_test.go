package plain

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

// next takes every step that can be taken in s.
func (m *lock) next(s state, out *steps) {
	for c := range m.clients {
		m.wants(s, c, out)
		m.calls(s, c, out)
		m.leaves(s, c, out)
	}
	m.network(s, out)
	m.time(s, out)
}

// wants are what the user of a client may want next, and what the watchdog does.
func (m *lock) wants(s state, c int, out *steps) {
	cl := &s.clients[c]
	begin := func(take func(int, string, state), what string, change func(*client, *call)) {
		n := s
		op := call{at: server.Sent, lease: n.clients[c].lease}
		change(&n.clients[c], &op)
		n.clients[c].op = op
		take('A'+c, what, n)
	}
	if cl.op.at == server.None {
		switch {
		case cl.mode == idle && cl.wishes > 0 && cl.gen < gens:
			begin(out.Loud, "wants the lock", func(cl *client, op *call) {
				cl.mode, cl.lease, cl.wishes = trying, m.lease, cl.wishes-1
				op.kind, op.lease = acquire, m.lease
			})
		case cl.mode == trying: // woken, or the lease that it knows of has ended
			begin(out.Loud, "tries again", func(cl *client, op *call) {
				op.kind, op.again = acquire, cl.stray && !m.off.Has(againWaiting)
			})
		case cl.mode == holding:
			if cl.holds < m.depth {
				begin(out.Loud, "wants to re-enter", func(cl *client, op *call) { op.kind, op.count = reentry, cl.holds+1 })
			}
			if cl.holds > 1 {
				begin(out.Quiet, "unlocks, but not the last", func(cl *client, op *call) {
					cl.holds--
					op.kind, op.count = unlock, cl.holds
				})
			} else {
				begin(out.Quiet, "unlocks the last", func(cl *client, op *call) { m.forget(cl); op.kind = release })
			}
			if c < m.frail && m.long > m.lease && !cl.long {
				begin(out.Loud, "wants a longer lease", func(cl *client, op *call) {
					cl.long = true
					op.kind, op.lease = extend, m.long
				})
			}
		}
	}
	// at once matters only before an extension
	soon := cl.trust < m.trust(cl.lease) || c < m.frail && m.long > m.lease && !cl.long
	if m.renews && cl.mode == holding && cl.renew.at == server.None && soon {
		n := s
		n.clients[c].renew = call{kind: renewal, at: server.Sent, lease: cl.lease}
		out.Loud('A'+c, "renews", n)
	}
}

// forget ends renewal and trust: the last unlock is about to be sent. A renewal under way is nobody's from here on.
func (m *lock) forget(cl *client) { cl.mode, cl.holds, cl.trust = leaving, 0, 0 }

// calls are the ways of a client's own messages: executed, answered, given up.
func (m *lock) calls(s state, c int, out *steps) {
	cl := &s.clients[c]
	if cl.op.at == server.Sent {
		n := s
		m.execute(&n, c, &n.clients[c].op)
		out.Quiet('A'+c, "the server executes its command", n)
	} else if cl.op.at != server.None {
		n := s
		m.answered(&n, c)
		out.Quiet('A'+c, "gets the answer", n)
	}
	if cl.renew.at == server.Sent {
		n := s
		m.execute(&n, c, &n.clients[c].renew)
		out.Quiet('A'+c, "the server renews", n)
	} else if cl.renew.at != server.None {
		n := s
		m.renewed(&n, c)
		out.Quiet('A'+c, "gets the answer to its renewal", n)
	}
	if c >= m.frail || !model.Spend(&s.faults) {
		return
	}
	if cl.op.at != server.None {
		n := s
		m.abandon(&n, c, cl.op)
		n.clients[c].op.at, n.clients[c].op.age, n.clients[c].op.again = server.Sent, 0, true
		out.Loud('A'+c, "hears nothing and sends again", n)
		n = s
		m.giveUp(&n, c)
		out.Loud('A'+c, "hears nothing and gives up", n)
	}
	if cl.renew.at != server.None {
		m.abandon(&s, c, cl.renew)
		cl.renew = call{}
		out.Loud('A'+c, "hears nothing of its renewal", s)
	}
}

// answered is what a client makes of the answer to its call.
func (m *lock) answered(s *state, c int) {
	cl := &s.clients[c]
	op := cl.op
	cl.op = call{}
	switch op.kind {
	case acquire:
		cl.stray = cl.stray || op.again
		switch {
		case op.at == server.Denied: // waits
		case m.left(op) == 0:
			m.undone(s, c)
		default:
			cl.mode, cl.holds, cl.trust, cl.token = holding, 1, m.left(op), op.token
		}
	case reentry, unlock, settle, extend:
		if cl.mode != holding {
			return // lost meanwhile
		}
		if op.at == server.Gone {
			m.end(s, c, false)
			return
		}
		cl.stray = cl.stray || op.again && op.kind != extend
		if op.kind == reentry {
			cl.holds = op.count
		}
		if op.kind == reentry || op.kind == extend {
			cl.trust, cl.lease = max(cl.trust, m.left(op)), op.lease
		}
	case release:
		if cl.stray = cl.stray || op.again; cl.stray {
			m.undone(s, c)
		} else {
			m.end(s, c, false)
		}
	}
}

// renewed is what the watchdog makes of an answer.
func (m *lock) renewed(s *state, c int) {
	cl := &s.clients[c]
	r := cl.renew
	cl.renew = call{}
	switch {
	case cl.mode != holding:
	case r.at == server.Gone:
		m.end(s, c, false)
	default:
		cl.trust = max(cl.trust, m.left(r))
	}
}

// giveUp is the end of the retry budget.
func (m *lock) giveUp(s *state, c int) {
	cl := &s.clients[c]
	op := cl.op
	m.abandon(s, c, op)
	cl.op = call{}
	cl.stray = cl.stray || op.kind != extend
	switch op.kind {
	case acquire, release:
		m.undone(s, c)
	case reentry, unlock: // settle is tried once: the next command puts right what it could not
		cl.op = call{kind: settle, at: server.Sent, count: cl.holds, lease: cl.lease}
	}
}

// undone ends a client's try or hold, and begins an undo of what it may have left.
func (m *lock) undone(s *state, c int) {
	owner := id(c, s.clients[c].gen)
	m.end(s, c, true)
	m.beginUndo(s, owner)
}

// end makes a client idle, and gives it another owner id if something of this one is still on its way.
func (m *lock) end(s *state, c int, undoing bool) {
	cl := &s.clients[c]
	gen := cl.gen
	if cl.stray && !m.off.Has(freshOwner) || undoing && !m.off.Has(freshUndo) {
		gen++
	}
	m.abandon(s, c, cl.op)
	m.abandon(s, c, cl.renew)
	*cl = client{gen: gen, wishes: cl.wishes}
}

// left is how long a lease can be trusted whose call was sent so long ago.
func (m *lock) left(op call) uint8 {
	if m.off.Has(fromSending) {
		return m.trust(op.lease)
	}
	return m.trust(op.lease) - min(op.age, m.trust(op.lease))
}

// trust is less than the lease, by what two clocks may differ.
func (m *lock) trust(lease uint8) uint8 { return lease - 1 }

// leaves are callers that give up while they wait, and processes that die.
func (m *lock) leaves(s state, c int, out *steps) {
	cl := &s.clients[c]
	if cl.mode == trying && cl.op.at == server.None {
		n := s
		if cl.stray && !m.off.Has(undoDenied) {
			m.undone(&n, c)
		} else {
			m.end(&n, c, false)
		}
		out.Quiet('A'+c, "has waited long enough", n)
	}
	if c >= m.frail {
		return
	}
	if n := s; model.Spend(&n.leaves) && cl.mode == trying && cl.op.at != server.None {
		m.cancel(&n, c)
		out.Loud('A'+c, "its caller leaves", n)
	}
	if n := s; model.Spend(&n.crashes) && (cl.mode != idle || m.busy(&s, c)) {
		m.crash(&n, c)
		out.Loud('A'+c, "dies", n)
	}
}
