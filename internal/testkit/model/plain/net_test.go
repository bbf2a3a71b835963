package plain

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
	"github.com/holdfast-go/holdfast/lua"
)

// execute is the server's part in a call that its client still waits for.
func (m *lock) execute(s *state, c int, op *call) {
	owner := id(c, s.clients[c].gen)
	a := m.run(s, message{op.kind, owner, op.count, op.lease, op.again}, false)
	if op.at = a.Stands(); op.at == server.Done {
		op.token = a.Token
	}
	s.wrong.If(op.at == server.Denied && s.Owner == owner, model.ErrItself)
}

// run executes a request, and notes what it did to whom: whatever a client believes, these things must not happen.
func (m *lock) run(s *state, r message, straggler bool) (a server.Answer) {
	before := s.Keys
	switch r.kind {
	case acquire, late:
		if r.count == model.Aged && !m.off.Has(server.Lateness) {
			return server.Answer{Status: lua.Late}
		}
		a = s.Acquire(m.off, r.id, r.lease, 1, r.again)
	case reentry, unlock, recount:
		a = s.Recount(m.off, r.id, r.count, r.lease)
	case settle: // absolute in any case, else it would have no meaning
		a = s.Recount(m.off&^server.Absolute, r.id, r.count, r.lease)
	case release, undoer:
		a = s.Release(m.off, r.id)
	case renewal, extend:
		a = s.Renew(m.off, r.id, r.lease)
	}
	switch granted := before.Owner == 0 && s.Owner != 0; {
	case granted && r.kind != acquire && r.kind != late:
		s.wrong.Add(model.ErrBack)
	case granted:
		s.wrong.If(s.Token <= s.top, model.ErrToken)
		s.top, s.dirty = s.Token, false
		if s.Clock != 0 {
			s.Clock++ // no two grants are of one microsecond
		}
	case before.Owner != r.id && before != s.Keys:
		s.wrong.Add(model.ErrAnothers)
	case before.Owner == s.Owner && a.Status == lua.Done && r.kind != renewal && r.kind != extend:
		s.dirty = straggler // the newest word on the count is one that its client has given up
	}
	return a
}

// abandon leaves a call's request to the network: it may arrive at any time from here on, or never; without room, never.
func (m *lock) abandon(s *state, c int, op call) {
	if op.at != server.Sent {
		return
	}
	r := message{op.kind, id(c, s.clients[c].gen), op.count, op.lease, op.again}
	switch r.kind { // to the server these are the same
	case reentry, unlock, settle:
		r.kind = recount
	case extend:
		r.kind = renewal
	case release:
		r.lease = 0
	}
	m.keep(s, r)
}

func (m *lock) keep(s *state, r message) {
	r.again = r.again && r.kind == acquire
	given := func(r message) bool { return !r.background() }
	s.full.Cut(model.Count(s.net[:], given) < m.messages && model.Put(s.net[:], r), &m.cut)
}

// work does something in the background. It has room of its own, else a message that is late would keep time from passing.
func (m *lock) work(s *state, r message) { s.full.Need(model.Put(s.net[:], r), &m.cut) }

// network is what happens to messages that no caller waits for.
func (m *lock) network(s state, out *steps) {
	for i, r := range model.Different(s.net[:]) {
		c, _ := ownerOf(r.id)
		n := s
		model.Take(n.net[:], i)
		switch r.kind {
		case undoer:
			if r.count != undoPause {
				m.undoStep(&n, r)
				out.Quiet('A'+c, "an undo releases", n)
			}
		case late:
			lost := n
			m.lateAnswer(&n, r)
			out.Quiet('A'+c, "the answer to a caller who left", n)
			if s.faults > 0 {
				lost.faults--
				m.keep(&lost, message{kind: acquire, id: r.id, lease: r.lease, again: r.again})
				m.beginUndo(&lost, r.id)
				out.Loud('A'+c, "no answer to a caller who left", lost)
			}
		default:
			out.Quiet('A'+c, "a late message is lost", n)
			m.run(&n, r, true)
			out.Quiet('A'+c, "a late message arrives", n)
		}
	}
}

// Steps of an undo: two releases, one after the other, a pause that is longer than a message lives, and another release.
const undoPause = 3

func (m *lock) beginUndo(s *state, owner uint8) {
	if !m.off.Has(undo) {
		m.work(s, message{kind: undoer, id: owner, count: 1})
	}
}

func (m *lock) undoStep(s *state, r message) {
	m.run(s, r, false)
	if r.count++; r.count <= undoPause && !m.off.Has(undoAgain) {
		m.work(s, r)
	}
}

// lateAnswer is an acquire that runs after its caller has left. Its answer comes at once: nothing waits in between.
func (m *lock) lateAnswer(s *state, r message) {
	if a := m.run(s, r, false); a.Status == lua.Done || r.again {
		m.beginUndo(s, r.id)
	}
}

// cancel is a caller who leaves while an acquire is under way. That goes on in the background.
func (m *lock) cancel(s *state, c int) {
	cl := &s.clients[c]
	op, owner := cl.op, id(c, cl.gen)
	cl.op, cl.stray = call{}, true
	switch {
	case op.at == server.Sent:
		m.end(s, c, true)
		m.work(s, message{kind: late, id: owner, lease: op.lease, again: op.again})
	case op.at == server.Done || op.again:
		m.undone(s, c)
	default:
		m.end(s, c, false)
	}
}

// crash ends a process with all that it does in the background. What it has sent may arrive.
func (m *lock) crash(s *state, c int) {
	for _, r := range model.Extract(s.net[:], func(r message) bool { return r.works(c) }) {
		s.crashed |= 1 << r.id
		if r.kind == late {
			r.kind = acquire
			m.keep(s, r)
		}
	}
	s.crashed |= 1 << id(c, s.clients[c].gen)
	s.clients[c].stray = true
	m.end(s, c, true)
}

// busy reports whether a client does something in the background.
func (m *lock) busy(s *state, c int) bool {
	return model.Count(s.net[:], func(r message) bool { return r.works(c) }) > 0
}

// time is a tick of all clocks, and what can happen to the server's data.
func (m *lock) time(s state, out *steps) {
	n := s
	n.Tick()
	if m.losses > 0 {
		n.Clock++
	}
	for c := range m.clients {
		m.clientTick(&n, c)
	}
	m.netTick(&n)
	if m.losses == 0 || s.Clock < horizon {
		out.Quiet(0, "time passes", n)
	}
	if !model.Spend(&s.loss) {
		return
	}
	n = s
	n.Keys = server.Keys{Clock: s.Clock}
	out.Loud(0, "the server loses its keys", n)
	if s.Clock > clockStep && s.Token != 0 {
		s.Clock -= clockStep
		out.Loud(0, "the server's clock is set back", s)
	}
}

const (
	clockStep = 3  // by which it is set back: less than a token's key lives
	horizon   = 10 // of the clock, where there is one
)

// clientTick ends what is trusted no more.
func (m *lock) clientTick(s *state, c int) {
	cl := &s.clients[c]
	for _, op := range []*call{&cl.op, &cl.renew} {
		if op.ages() && op.age < m.trust(op.lease) {
			op.age++
		}
	}
	switch {
	case cl.mode != holding:
	case cl.trust > 1:
		cl.trust--
	case !m.off.Has(deadline):
		m.undone(s, c)
	}
}

// ages reports whether it matters when a call was sent.
func (c *call) ages() bool {
	return (c.at == server.Sent || c.at == server.Done) && (c.kind == acquire || c.kind == reentry || c.kind == extend ||
		c.kind == renewal)
}

// netTick makes what is late aged, ends the lives of other stragglers where they have one, and the pauses of undos.
func (m *lock) netTick(s *state) {
	model.Change(s.net[:], func(r message) (message, bool) {
		switch {
		case r.kind == undoer && r.count == undoPause:
			r.count++
		case r.kind == acquire:
			r.count = model.Aged
		case !r.background() && m.brief:
			return r, false
		}
		return r, true
	})
}
