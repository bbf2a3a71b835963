package plain

import "github.com/holdfast-go/holdfast/lua"

// execute is the server's part in a call that its client still waits for.
func (m *lock) execute(s *state, c int, op *call) {
	a := m.run(s, message{op.kind, id(c, s.clients[c].gen), op.count, op.lease, op.again}, false)
	switch {
	case a.status == lua.Gone:
		op.at = gone
	case a.status == lua.Denied:
		op.at = denied
		if s.owner == id(c, s.clients[c].gen) {
			s.wrong |= byItself
		}
	default:
		op.at, op.token = done, a.token
	}
}

// run executes a request, and notes what it did to whom: whatever a client believes, these things
// must not happen.
func (m *lock) run(s *state, r message, straggler bool) answer {
	before := s.keys
	var a answer
	switch r.kind {
	case acquire, late:
		if r.count == aged && !m.off.has(lateness) {
			return answer{status: lua.Late}
		}
		a = s.acquire(m.off, r.id, r.lease, r.again)
	case reentry, unlock, recount:
		a = s.recount(m.off, r.id, r.count, r.lease)
	case settle: // absolute in any case, else it would have no meaning
		a = s.recount(m.off&^absolute, r.id, r.count, r.lease)
	case release, undoer:
		a = s.release(m.off, r.id)
	case renewal, extend:
		a = s.renew(m.off, r.id, r.lease)
	}
	switch granted := before.owner == 0 && s.owner != 0; {
	case granted && r.kind != acquire && r.kind != late:
		s.wrong |= broughtBack
	case granted:
		if s.token <= s.top {
			s.wrong |= oldToken
		}
		s.top, s.dirty = s.token, false
		if s.clock != 0 {
			s.clock++ // no two grants are of one microsecond
		}
	case before.owner != r.id && before != s.keys:
		s.wrong |= anothers
	case before.owner == s.owner && a.status == lua.Done && r.kind != renewal && r.kind != extend:
		s.dirty = straggler // the newest word on the count is one that its client has given up
	}
	return a
}

// abandon leaves the request of a call to the network: it may arrive at any time from here on, or
// never. Where the bounds have no room for it, never.
func (m *lock) abandon(s *state, c int, op call) {
	if op.at != sent {
		return
	}
	r := message{op.kind, id(c, s.clients[c].gen), op.count, op.lease, op.again}
	switch r.kind { // to the server these are the same
	case reentry, unlock, settle:
		r.kind = recount
	case extend:
		r.kind = renewal
	case release:
		r.lease, r.again = 0, false
	}
	if r.kind != acquire {
		r.again = false
	}
	_ = m.keep(s, r)
}

// keep adds a message within the bounds. Work in the background has room of its own, else a message
// that is late would keep time from passing.
func (m *lock) keep(s *state, r message) bool {
	if !r.background() && s.stragglers() >= m.messages || !s.put(r) {
		m.cut++
		return false
	}
	return true
}

// network is what happens to messages that no caller waits for.
func (m *lock) network(s state, emit func(string, state)) {
	for i, r := range s.net {
		if r == (message{}) {
			return
		}
		if i > 0 && r == s.net[i-1] {
			continue // the same again
		}
		c, _ := ownerOf(r.id)
		n := s
		n.take(i)
		switch r.kind {
		case undoer:
			if m.undoStep(&n, r) {
				emit(labels[c][lUndo], n)
			}
			continue
		case late:
			if m.lateAnswer(&n, r) {
				emit(labels[c][lLate], n)
			}
			if s.faults > 0 {
				n = s
				n.take(i)
				n.faults--
				_ = m.keep(&n, message{kind: acquire, id: r.id, lease: r.lease, again: r.again})
				if m.beginUndo(&n, r.id) {
					emit(labels[c][lLateLost], n)
				}
			}
			continue
		}
		emit(labels[c][lDropped], n)
		m.run(&n, r, true)
		emit(labels[c][lStraggler], n)
	}
}

// Steps of an undo: two releases, one after the other, a pause that is longer than a message lives,
// and another release.
const undoPause = 3

func (m *lock) undoStep(s *state, r message) bool {
	if r.count == undoPause {
		_ = s.put(r)
		return false
	}
	m.run(s, r, false)
	r.count++
	if m.off.has(undoAgain) || r.count > undoPause {
		return true
	}
	return m.keep(s, r)
}

// lateAnswer is an acquire that runs after its caller has left. Its answer comes at once: nothing
// waits in between.
func (m *lock) lateAnswer(s *state, r message) bool {
	a := m.run(s, r, false)
	if a.status == lua.Done || r.again {
		return m.beginUndo(s, r.id)
	}
	return true
}

// cancel is a caller who leaves while an acquire is under way. That goes on in the background.
func (m *lock) cancel(s *state, c int) bool {
	cl := &s.clients[c]
	op, owner := cl.op, id(c, cl.gen)
	cl.op = call{}
	cl.stray = true
	again := op.again
	switch {
	case op.at == sent:
		m.end(s, c, true)
		return m.keep(s, message{kind: late, id: owner, lease: op.lease, again: again})
	case op.at == done || again:
		return m.undone(s, c)
	}
	m.end(s, c, false)
	return true
}

// crash ends a process with all that it does in the background.
func (m *lock) crash(s *state, c int) {
	var rest []message
	for i := 0; i < maxMessages && s.net[i] != (message{}); {
		r := s.net[i]
		if owner, _ := ownerOf(r.id); owner != c || !r.background() {
			i++
			continue
		}
		s.take(i)
		s.crashed |= 1 << r.id
		if r.kind == late {
			r.kind = acquire
			rest = append(rest, r)
		}
	}
	for _, r := range rest {
		_ = m.keep(s, r)
	}
	s.crashed |= 1 << id(c, s.clients[c].gen)
	s.clients[c].stray = true
	m.end(s, c, true)
}

// busy reports whether a client does something in the background.
func (m *lock) busy(s *state, c int) bool {
	for _, r := range s.net {
		if owner, _ := ownerOf(r.id); r.background() && owner == c {
			return true
		}
	}
	return false
}

// time is a tick of all clocks, and what can happen to the server's data.
func (m *lock) time(s state, emit func(string, state)) {
	n := s
	n.tick()
	ok := m.losses == 0 || s.clock < horizon
	if m.losses > 0 {
		n.clock++
	}
	for c := range m.clients {
		ok = ok && m.clientTick(&n, c)
	}
	m.netTick(&n)
	if ok {
		emit(tickLabel, n)
	}
	if s.loss == 0 {
		return
	}
	n = s
	n.loss--
	n.keys = keys{clock: s.clock}
	emit(lostLabel, n)
	if s.clock > clockStep && s.token != 0 {
		n = s
		n.loss--
		n.clock -= clockStep
		emit(backLabel, n)
	}
}

const (
	clockStep = 3  // by which it is set back: less than a token's key lives
	horizon   = 10 // of the clock, where there is one
)

// clientTick ends what is trusted no more.
func (m *lock) clientTick(s *state, c int) bool {
	cl := &s.clients[c]
	for _, op := range []*call{&cl.op, &cl.renew} {
		if op.ages() && op.age < m.trust(op.lease) {
			op.age++
		}
	}
	if cl.mode != holding {
		return true
	}
	if cl.trust > 1 {
		cl.trust--
		return true
	}
	if m.off.has(deadline) {
		return true
	}
	return m.undone(s, c)
}

// ages reports whether it matters when a call was sent.
func (c *call) ages() bool {
	return (c.at == sent || c.at == done) && (c.kind == acquire || c.kind == reentry || c.kind == extend ||
		c.kind == renewal)
}

// aged is an acquire that its client gave up a while ago: the last release of an undo comes after
// it has become that.
const aged = 1

// netTick makes what is late aged, ends the lives of other stragglers where they have one, and the
// pauses of undos.
func (m *lock) netTick(s *state) {
	old := s.net
	s.net = [maxMessages]message{}
	for _, r := range old {
		switch {
		case r == (message{}):
			return
		case r.kind == undoer && r.count == undoPause:
			r.count++
		case r.kind == acquire:
			r.count = aged
		case !r.background() && m.brief:
			continue
		}
		_ = s.put(r)
	}
}
