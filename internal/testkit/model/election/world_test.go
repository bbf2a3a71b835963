package election

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/lua"
)

// next takes every step that can be taken in s.
func (m *electing) next(s state, out *steps) {
	for c := range s.c {
		m.candidate(s, c, out)
	}
	m.observes(s, out)
	m.network(s, out)
	m.harms(s, out)
	m.time(s, out)
}

// settle drops what no later step depends on: the greatest token of a leader, where all that begin
// from here on have greater ones.
func (m *electing) settle(s *state) bool {
	for c := range s.c {
		if cd := &s.c[c]; m.off.Has(newToken) || cd.mode == announcing && cd.token <= s.top {
			return true
		}
	}
	s.top = 0
	return true
}

// terms are what scripts are told, and who can be reached.
func (m *electing) terms(s *state) terms {
	t := terms{off: m.off, lease: m.lease, claim: claim, keep: m.lease + 1}
	for c := range s.c {
		t.deaf[c] = s.c[c].dead
	}
	return t
}

// run executes a request, and notes what it did: whatever a client believes, these things must not
// happen.
func (m *electing) run(s *state, r request) (a answer) {
	t := m.terms(s)
	before := s.owner
	switch r.kind {
	case announce:
		a = s.announce(&t, r.id, r.token)
		s.wrong.If(a.status == lua.Done && r.id != s.owner, errUnheld)
		s.announced = s.announced || a.status == lua.Done && r.id == s.owner && r.token == s.token
	case release:
		a = s.release(&t, r.id)
		s.wrong.If(a.status == lua.Done && s.saidBy == r.id, errLeft)
	case renewal:
		a = s.renew(&t, r.id)
	}
	m.after(s, before, a)
	return a
}

// after sends the messages of a script.
func (m *electing) after(s *state, before uint8, a answer) {
	if s.owner != before {
		s.announced = false
	}
	if a.told && s.o.link.Up() {
		s.o.mail = true
	}
	if a.mail == 0 {
		return
	}
	if c, _ := ownerOf(a.mail); s.id(c) == a.mail && s.c[c].mode == waiting {
		s.c[c].mail, s.c[c].stands = s.token, claim-1
	}
}

// network is what happens to requests that nobody waits for, and work in the background.
func (m *electing) network(s state, out *steps) {
	for id := uint8(1); s.undo>>id != 0; id++ {
		if s.undo&(1<<id) == 0 {
			continue
		}
		c, _ := ownerOf(id)
		n := s
		n.undo &^= 1 << id
		m.run(&n, request{kind: release, id: id})
		model.Change(n.net[:], func(r request) (request, bool) {
			return r, r.id != id || r.kind != release // it is repeated for as long as a release may be under way
		})
		out.Step('A'+c, "an undo releases", m.counts(), n)
	}
	for i, r := range model.Under(s.net[:]) {
		n := s
		model.Take(n.net[:], i)
		out.Step(0, "a late request is lost", m.counts(), n)
		m.run(&n, r)
		out.Loud(0, "a late request arrives", n)
	}
}

// harms are what happens to the server's data.
func (m *electing) harms(s state, out *steps) {
	if n := s; model.Spend(&n.forces) && s.owner != 0 {
		n.owner, n.ttl, n.announced, n.harmed = 0, 0, false, true
		out.Loud(0, "somebody deletes the lock", n)
	}
	if n := s; model.Spend(&n.losses) {
		n.keys = keys{token: s.token} // which are no less than the clock
		n.announced, n.harmed = false, true
		out.Loud(0, "the server loses its keys", n)
	}
}

// time is a tick. It does not pass while a message of a grant, or an answer to a look, is overdue.
func (m *electing) time(s state, out *steps) {
	if s.o.at == looked {
		return
	}
	n := s
	n.tick()
	n.announced = n.announced && n.owner != 0
	for c := range n.c {
		cd := &n.c[c]
		if cd.mail != 0 {
			if n.lapses == 0 {
				return
			}
			n.lapses--
			if model.Less(&cd.stands); cd.stands == 0 {
				cd.mail = 0
			}
		}
		model.Less(&cd.renewed)
		if cd.trust == 0 || cd.trust == 1 && m.off.Has(deadline) {
			continue
		}
		if cd.trust--; cd.trust == 0 {
			m.lose(&n, c)
		}
	}
	if n.o.at == asleep {
		model.Less(&n.o.timer)
	}
	out.Step(0, "time passes", m.counts(), n)
}

// observes is what the observer does.
func (m *electing) observes(s state, out *steps) {
	o := &s.o
	n := s
	switch o.at {
	case absent:
		return
	case looking:
		t := m.terms(&s)
		a := s.leader(&t)
		n.o.at, n.o.token, n.o.lasts = looked, a.token, a.left
		n.wrong.If(a.status == lua.Done && (s.owner != s.saidBy || a.token != s.token), errUntrue)
		out.Quiet('O', "the server executes its look", n)
		if n := s; model.Spend(&n.faults) {
			n.o.at, n.o.timer = asleep, 0
			if m.off.Has(retries) {
				n.o.timer = model.Endless
			}
			out.Loud('O', "hears nothing of its look", n)
		}
	case looked:
		n.o.tell(m)
		n.wrong.If(o.token != 0 && o.token < o.most, errBackwards)
		out.Quiet('O', "gets the answer to its look", n)
	case asleep:
		if o.wake || o.timer == 0 {
			n.o.at, n.o.wake, n.o.timer = looking, false, 0
			out.Quiet('O', "has reason to look", n)
		}
	}
	m.links(s, out)
}

// tell is what an observer makes of the answer.
func (o *observer) tell(m *electing) {
	o.began, o.last, o.most = true, o.token, max(o.most, o.token)
	o.at, o.timer = asleep, model.Endless
	if o.token != 0 && o.lasts != 0 && !m.off.Has(looksEnd) {
		o.timer = o.lasts
	}
	o.token, o.lasts = 0, 0
}

// links are what becomes of the subscription.
func (m *electing) links(s state, out *steps) {
	o := &s.o
	n := s
	switch o.link {
	case model.Off:
		n.o.link = model.On
		out.Quiet('O', "the server subscribes it", n)
	case model.On:
		n.o.link, n.o.anew = model.Heard, true
		n.o.wake = o.wake || !o.anew && !m.off.Has(looksFirst) || o.anew && !m.off.Has(looksAgain)
		out.Quiet('O', "knows that it listens", n)
	case model.Severed:
		n.o.link, n.o.wake = model.Off, true
		out.Quiet('O', "notices that its connection is broken", n)
	}
	if o.link == model.Heard && o.mail {
		n = s
		n.o.mail = false
		n.o.wake = o.wake || !m.off.Has(hears)
		out.Quiet('O', "gets a message", n)
	}
	if n := s; model.Spend(&n.breaks) && o.link.Up() {
		n.o.link, n.o.mail = model.Severed, false
		out.Loud(0, "O's connection breaks", n)
	}
}
