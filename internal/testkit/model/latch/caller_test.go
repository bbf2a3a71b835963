package latch

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
	"github.com/holdfast-go/holdfast/lua"
)

// next takes every step that can be taken in s.
func (m *latching) next(s state, out *steps) {
	for c := range s.clients {
		m.caller(s, c, out)
	}
	m.others(s, out)
	m.waits(s, out)
	m.network(s, out)
	m.time(s, out)
}

// network is what happens to requests that no caller waits for.
func (m *latching) network(s state, out *steps) {
	for i, r := range model.Under(s.net[:]) {
		n := s
		model.Take(n.net[:], i)
		out.Loud(0, "a late request is lost", n)
		m.run(&n, r, m.stays[r.call/perClient])
		out.Loud(0, "a late request arrives", n)
	}
}

// time is a tick. It does not pass while an answer is overdue: whoever gets none then has sent again or given up.
func (m *latching) time(s state, out *steps) {
	n := s
	for c := range n.clients {
		cl := &n.clients[c]
		if cl.at == server.None {
			continue
		}
		if cl.op.age == limit {
			return
		}
		cl.op.age++
		cl.age = min(cl.age+1, budget+1)
	}
	if s.gate.at == looked {
		return
	}
	n.wrong.If(n.tick() && s.due > 1 && s.due != model.Endless, errSooner)
	model.Less(&n.due)
	if n.gate.at == asleep {
		model.Less(&n.gate.timer)
	}
	model.Change(n.net[:], func(r request) (request, bool) {
		late := r.age >= limit && !m.off.Has(lateness)
		r.age = min(r.age+1, limit+1)
		return r, !late
	})
	out.Step(0, "time passes", m.rest != model.Endless, n)
}

// caller is what a client that calls does.
func (m *latching) caller(s state, c int, out *steps) {
	cl := &s.clients[c]
	switch cl.at {
	case server.None:
		if cl.wishes > 0 {
			for kind := set; kind < kinds; kind++ {
				n := s
				n.begin(m, c, kind)
				out.Loud('A'+c, kindTexts[kind], n)
			}
		}
		return
	case server.Sent:
		n := s
		nc := &n.clients[c]
		if a := m.run(&n, cl.op, m.stays[c]); a.status == lua.Done {
			nc.at, nc.said = server.Done, a.n
		} else {
			nc.op.age = 0 // refused, and sent again
		}
		out.Loud('A'+c, "the server executes its call", n)
	case server.Done:
		n := s
		n.judgeAnswer(c)
		n.end(c, returned)
		out.Loud('A'+c, "gets the answer", n)
	}
	if n := s; model.Spend(&n.faults) {
		m.abandon(&n, c)
		if cl.age <= budget {
			nc := &n.clients[c]
			nc.at, nc.op.age, nc.said = server.Sent, 0, 0
			out.Loud('A'+c, "hears nothing and sends again", n)
		}
		n = s
		n.faults--
		m.abandon(&n, c)
		n.end(c, unsure)
		out.Loud('A'+c, "hears nothing and gives up", n)
	}
	if n := s; model.Spend(&n.crashes) {
		m.abandon(&n, c)
		n.end(c, unsure)
		n.clients[c].wishes = 0
		out.Loud('A'+c, "dies", n)
	}
}

func (s *state) begin(m *latching, c int, kind uint8) {
	cl := &s.clients[c]
	call := uint8(c)*perClient + cl.begun //nolint:gosec // few
	id := call
	if m.off.Has(freshCall) {
		id = uint8(c) * perClient //nolint:gosec // few
	}
	cl.wishes--
	cl.begun++
	cl.at, cl.op, cl.age = server.Sent, request{kind: kind, call: call, id: id}, 0
}

// abandon leaves an unanswered attempt to the network: it may arrive at any time, or never; without room for it, never.
func (m *latching) abandon(s *state, c int) {
	if cl := &s.clients[c]; cl.at == server.Sent && !model.Put(s.net[:], cl.op) {
		m.cut++
	}
}

// end is the end of a call for its caller.
func (s *state) end(c int, how uint8) {
	cl := &s.clients[c]
	s.fates[cl.op.call].end = how
	*cl = client{wishes: cl.wishes, begun: cl.begun}
}

// run executes a request, and notes what it did: whatever a client believes, these things must not happen.
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
		f.effects++
		f.left = a.n
		s.wrong.If(f.effects > 1, errTwice)
		s.wrong.If(f.end == returned, errAfter)
	case before.count == 0 && r.kind != set, before.count > 0 && r.kind == set:
		f.idle = true
	}
	return a
}

func (m *latching) terms(stay uint8) terms {
	return terms{off: m.off, limit: limit, more: 2 * budget, count: m.count, stay: stay}
}

// announce is a message to all who listen.
func (m *latching) announce(s *state, told bool) {
	if told && s.gate.link.Up() {
		s.gate.mail = true
	}
}

// others are an undisturbed client, Redisson, and operators.
func (m *latching) others(s state, out *steps) {
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
			out.Loud('X', kindTexts[kind], n)
		}
	}
	if s.redisson > 0 {
		m.redissons(s, out)
	}
	if n := s; model.Spend(&n.untold) && s.count > 0 {
		n.count, n.ttl = 0, 0
		out.Loud(0, "somebody deletes the key, and tells nobody", n)
	}
}

func (m *latching) redissons(s state, out *steps) {
	n := s
	n.redisson--
	m.announce(&n, n.redissonCounts())
	out.Loud(0, "Redisson counts down", n)
	n = s
	n.redisson--
	if s.count > 0 {
		n.count, n.ttl = 0, 0
		m.announce(&n, true)
		out.Loud(0, "Redisson deletes the latch", n)
	} else {
		n.count, n.ttl, n.foreign = m.count, model.Endless, true
		m.announce(&n, true)
		out.Loud(0, "Redisson sets a latch", n)
	}
}

// waits are what waiters and their gate do.
func (m *latching) waits(s state, out *steps) {
	g := &s.gate
	for i := range s.waiters {
		w := &s.waiters[i]
		if !w.waits && w.wishes > 0 {
			n := s
			n.join(m, i)
			out.Loud('W', [maxWaiters]string{"its first waiter comes", "its second waiter comes"}[i], n)
		}
		if w.waits && s.leaves > 0 {
			n := s
			n.leaves--
			n.waiters[i] = waiter{wishes: w.wishes}
			n.gate.joined = n.gate.joined || !n.anybody()
			out.Loud('W', [maxWaiters]string{"its first waiter leaves", "its second waiter leaves"}[i], n)
		}
	}
	switch g.at {
	case looking:
		n := s
		n.gate.at, n.gate.left, n.gate.lasts = looked, s.count, s.ttl
		out.Quiet('W', "the server executes its look", n)
		if n := s; model.Spend(&n.faults) { // and is repeated, or ends the waits with an error
			for i := range n.waiters {
				if n.waiters[i].some {
					n.waiters[i] = waiter{wishes: n.waiters[i].wishes}
				}
			}
			n.sleep(m, 0)
			out.Loud('W', "hears nothing of its look, and the waits end with an error", n)
		}
	case looked:
		n := s
		n.tell(m)
		out.Quiet('W', "gets the answer to its look", n)
	case asleep:
		if g.wake || g.joined || g.timer == 0 {
			n := s
			n.look()
			out.Quiet('W', "has reason to look", n)
		}
	}
	m.links(s, out)
}

func (s *state) anybody() bool { return s.waiters[0].waits || s.waiters[1].waits }

// join adds a waiter to the gate, and opens one if there is none.
func (s *state) join(m *latching, i int) {
	w := &s.waiters[i]
	w.wishes--
	w.waits = true
	switch {
	case s.gate.at == closed:
		s.gate.wake = s.gate.link == model.Heard // the token of a confirmed channel
		s.gate.timer = m.rest
		s.look()
	case !m.off.Has(kicks):
		s.gate.joined = true
	}
	if s.gate.at == looking || s.gate.at == looked {
		w.some = w.some || m.off.Has(ownLook)
	}
}

// look begins a look for those who wait now. Without anybody the gate is closed.
func (s *state) look() {
	g := &s.gate
	g.wake, g.joined, g.timer = false, false, 0
	if !s.anybody() {
		g.at = closed
		return
	}
	g.at = looking
	for i := range s.waiters {
		s.waiters[i].some = s.waiters[i].waits
	}
}

// tell is what the gate makes of the answer.
func (s *state) tell(m *latching) {
	left, lasts := s.gate.left, s.gate.lasts
	if left == 0 {
		for i := range s.waiters {
			if w := &s.waiters[i]; w.some {
				s.wrong.If(!w.opened, errEarly)
				*w = waiter{wishes: w.wishes}
			}
		}
		lasts = 0
	}
	s.sleep(m, lasts)
}

// sleep ends a look. lasts: 0 if nothing is known of the latch's end.
func (s *state) sleep(m *latching, lasts uint8) {
	g := &s.gate
	g.at, g.left, g.lasts = asleep, 0, 0
	g.timer = m.rest
	if m.off.Has(looksRest) {
		g.timer = model.Endless
	}
	if lasts != 0 && lasts != model.Endless && !m.off.Has(looksEnd) {
		g.timer = min(g.timer, lasts)
	}
	for i := range s.waiters {
		s.waiters[i].some = false
	}
}

// links are what becomes of the subscription.
func (m *latching) links(s state, out *steps) {
	g := &s.gate
	n := s
	switch {
	case g.link == model.Off && g.at != closed:
		n.gate.link = model.On
		out.Quiet('W', "the server subscribes it", n)
	case g.link == model.Off:
		return
	case g.link == model.On:
		n.gate.link, n.gate.anew = model.Heard, true
		n.gate.wake = g.at != closed && (g.wake || !g.anew && !m.off.Has(looksFirst) || g.anew && !m.off.Has(looksAgain))
		out.Quiet('W', "knows that it listens", n)
	case g.link == model.Severed:
		n.gate.link = model.Off
		n.gate.wake = g.at != closed
		out.Quiet('W', "notices that its connection is broken", n)
	}
	if g.link == model.Heard && g.mail {
		n = s
		n.gate.mail = false
		n.gate.wake = g.wake || g.at != closed && !m.off.Has(hears)
		out.Quiet('W', "gets a message", n)
	}
	if g.at == closed && g.link == model.Heard {
		n = s
		n.gate.link, n.gate.anew, n.gate.mail = model.Off, false, false
		out.Quiet('W', "its subscription ends", n)
	}
	if n := s; model.Spend(&n.breaks) && g.link.Up() {
		n.gate.link, n.gate.mail = model.Severed, false
		out.Loud(0, "W's connection breaks", n)
	}
}
