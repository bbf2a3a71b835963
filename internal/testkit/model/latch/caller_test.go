package latch

import "github.com/holdfast-go/holdfast/lua"

// caller is what a client that calls does.
func (m *latching) caller(s state, c int, emit func(string, state)) {
	cl := &s.clients[c]
	switch cl.at {
	case none:
		if cl.wishes > 0 {
			for kind := set; kind < kinds; kind++ {
				n := s
				n.begin(m, c, kind)
				emit(labels[c][kind], n)
			}
		}
		return
	case sent:
		n := s
		nc := &n.clients[c]
		if a := m.run(&n, cl.op, m.stays[c]); a.status == lua.Done {
			nc.at, nc.said = answered, a.n
		} else {
			nc.op.age = 0 // refused, and sent again
		}
		emit(labels[c][lServer], n)
	case answered:
		n := s
		n.judgeAnswer(c)
		n.end(c, returned)
		emit(labels[c][lAnswer], n)
	}
	if s.faults > 0 {
		n := s
		n.faults--
		m.abandon(&n, c)
		if cl.age <= m.budget {
			nc := &n.clients[c]
			nc.at, nc.op.age, nc.said = sent, 0, 0
			emit(labels[c][lResends], n)
		}
		n = s
		n.faults--
		m.abandon(&n, c)
		n.end(c, unsure)
		emit(labels[c][lGivesUp], n)
	}
	if s.crashes > 0 {
		n := s
		n.crashes--
		m.abandon(&n, c)
		n.end(c, unsure)
		n.clients[c].wishes = 0
		emit(labels[c][lDies], n)
	}
}

func (s *state) begin(m *latching, c int, kind uint8) {
	cl := &s.clients[c]
	call := uint8(c)*perClient + cl.begun //nolint:gosec // few
	id := call
	if m.off.has(freshCall) {
		id = uint8(c) * perClient //nolint:gosec // few
	}
	cl.wishes--
	cl.begun++
	cl.at, cl.op, cl.age = sent, request{kind: kind, call: call, id: id}, 0
}

// abandon leaves an attempt without an answer to the network: it may arrive at any time from here
// on, or never. Where the bounds have no room for it, never.
func (m *latching) abandon(s *state, c int) {
	if cl := &s.clients[c]; cl.at == sent && !s.put(cl.op) {
		m.cut++
	}
}

// end is the end of a call for its caller.
func (s *state) end(c int, how uint8) {
	cl := &s.clients[c]
	s.fates[cl.op.call].end = how
	*cl = client{wishes: cl.wishes, begun: cl.begun}
}

// run executes a request, and notes what it did: whatever a client believes, these things must not
// happen.
func (m *latching) run(s *state, r request, stay uint8) answer {
	t := m.terms(stay)
	before := s.keys
	a := s.keys.run(&t, r)
	m.announce(s, a.told)
	f := &s.fates[r.call]
	switch {
	case a.status == lua.Late:
		return a
	case a.did:
		s.judgeEffect(&before, r.kind, stay)
		if f.effects++; f.effects > 1 {
			s.wrong |= twice
		}
		if f.end == returned {
			s.wrong |= afterwards
		}
	case before.count == 0 && r.kind != set, before.count > 0 && r.kind == set:
		f.idle = true
	}
	return a
}

func (m *latching) terms(stay uint8) terms {
	return terms{off: m.off, limit: m.limit, more: 2 * m.budget, count: m.count, stay: stay}
}

// announce is a message to all who listen.
func (m *latching) announce(s *state, told bool) {
	if told && (s.gate.link == on || s.gate.link == heard) {
		s.gate.mail = true
	}
}

// others are an undisturbed client, Redisson, and operators.
func (m *latching) others(s state, emit func(string, state)) {
	if s.other > 0 {
		for kind := set; kind < kinds; kind++ {
			n := s
			n.other--
			t := m.terms(m.stays[0])
			t.off &^= countOnce | setAgain | deleteAgain
			k := n.keys
			k.calls[0] = memory{} // a call of its own, which nobody repeats
			a := k.run(&t, request{kind: kind})
			n.count, n.ttl = k.count, k.ttl
			if a.did {
				n.judgeEffect(&s.keys, kind, t.stay)
			}
			m.announce(&n, a.told)
			emit(otherLabels[kind], n)
		}
	}
	if s.redisson > 0 {
		m.redissons(s, emit)
	}
	if s.untold > 0 && s.count > 0 {
		n := s
		n.untold--
		n.count, n.ttl = 0, 0
		emit(lUntold, n)
	}
}

func (m *latching) redissons(s state, emit func(string, state)) {
	n := s
	n.redisson--
	m.announce(&n, n.redissonCounts())
	emit(lRCounts, n)
	n = s
	n.redisson--
	if s.count > 0 {
		n.count, n.ttl = 0, 0
		m.announce(&n, true)
		emit(lRDeletes, n)
	} else {
		n.count, n.ttl, n.foreign = m.count, endless, true
		m.announce(&n, true)
		emit(lRSets, n)
	}
}
