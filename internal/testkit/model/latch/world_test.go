package latch

func (m *latching) next(s state, emit func(string, state)) {
	out := func(label string, n state) {
		n.settle(m)
		emit(label, n)
	}
	for c := range s.clients {
		m.caller(s, c, out)
	}
	m.others(s, out)
	m.waits(s, out)
	m.network(s, out)
	m.time(s, out)
}

// network is what happens to requests that no caller waits for.
func (m *latching) network(s state, emit func(string, state)) {
	for i, r := range s.net {
		if r == (request{}) {
			continue
		}
		n := s
		n.take(i)
		emit(lDropped, n)
		m.run(&n, r, m.stays[r.call/perClient])
		emit(lStraggler, n)
	}
}

// time is a tick. It does not pass while an answer is overdue: whoever gets none then has sent again
// or given up.
func (m *latching) time(s state, emit func(string, state)) {
	n := s
	for c := range n.clients {
		cl := &n.clients[c]
		if cl.at == none {
			continue
		}
		if cl.op.age == m.limit {
			return
		}
		cl.op.age++
		cl.age = min(cl.age+1, m.budget+1)
	}
	if s.gate.at == looked {
		return
	}
	if n.tick() && s.due > 1 && s.due != endless {
		n.wrong |= sooner
	}
	if n.due > 0 && n.due != endless {
		n.due--
	}
	if g := &n.gate; g.timer > 0 && g.timer != endless && g.at == asleep {
		g.timer--
	}
	old := n.net
	n.net = [2]request{}
	for _, r := range old {
		if r.kind == 0 || r.age >= m.limit && !m.off.has(lateness) {
			continue
		}
		r.age = min(r.age+1, m.limit+1)
		n.put(r)
	}
	emit(lTime, n)
}
