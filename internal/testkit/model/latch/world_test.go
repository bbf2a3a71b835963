package latch

import "github.com/holdfast-go/holdfast/internal/testkit/model"

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

// time is a tick. It does not pass while an answer is overdue: whoever gets none then has sent again
// or given up.
func (m *latching) time(s state, out *steps) {
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
	n.wrong.If(n.tick() && s.due > 1 && s.due != model.Endless, errSooner)
	model.Less(&n.due)
	if n.gate.at == asleep {
		model.Less(&n.gate.timer)
	}
	model.Change(n.net[:], order, func(r request) (request, bool) {
		late := r.age >= m.limit && !m.off.Has(lateness)
		r.age = min(r.age+1, m.limit+1)
		return r, !late
	})
	out.Step(0, "time passes", m.rest != model.Endless, n)
}
