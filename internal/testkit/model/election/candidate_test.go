package election

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
	"github.com/holdfast-go/holdfast/lua"
)

// candidate is what a process does that campaigns.
func (m *electing) candidate(s state, c int, out *steps) {
	cd := &s.c[c]
	switch {
	case cd.dead:
		return
	case cd.mode == away && cd.wishes > 0:
		n := s
		nc := &n.c[c]
		nc.wishes--
		if !m.off.Has(freshTerm) {
			nc.gen++
		}
		nc.mode = waiting
		n.wrong.If(cd.works > 0, errBeside)
		m.ask(&n, c)
		out.Loud('A'+c, "campaigns", n)
	case cd.mode == waiting:
		m.waits(s, c, out)
	case cd.mode == announcing, cd.mode == resigning:
		m.commands(s, c, out)
	}
	m.renews(s, c, out)
	m.function(s, c, out)
	if n := s; model.Spend(&n.crashes) && (cd.mode != away || cd.works > 0) {
		m.abandon(&n, c)
		n.c[c] = candidate{gen: cd.gen, dead: true}
		n.undo &^= (1<<gens - 1) << (c*gens + 1)
		out.Loud('A'+c, "dies", n)
	}
}

// ask asks for the lock, or for what has become of the place. Requests take no time: nothing depends on their travel.
func (m *electing) ask(s *state, c int) {
	t := m.terms(s)
	before := s.owner
	a := s.acquire(&t, s.id(c))
	m.after(s, before, a)
	if a.status == lua.Done {
		m.won(s, c, a.token, m.lease-1)
	}
}

// won begins a leadership, which is announced.
func (m *electing) won(s *state, c int, token, trust uint8) {
	cd := &s.c[c]
	cd.mode, cd.at, cd.token, cd.trust = announcing, server.Sent, token, trust
	cd.mail, cd.stands, cd.renewed = 0, 0, 0
	if m.off.Has(announces) {
		m.leads(s, c)
	}
}

// leads begins the function.
func (m *electing) leads(s *state, c int) {
	cd := &s.c[c]
	cd.mode = leading
	if cd.works > 0 {
		s.wrong.Add(errFunctions)
		return
	}
	// A lock that was forced free is another's before its leader knows.
	s.wrong.If(cd.token == s.top || cd.token < s.top && !s.harmed, errToken)
	s.top = max(s.top, cd.token)
	cd.works, cd.lost = 1, false
}

func (m *electing) waits(s state, c int, out *steps) {
	cd := &s.c[c]
	if cd.mail != 0 {
		n := s
		m.won(&n, c, cd.mail, cd.stands)
		out.Step('A'+c, "gets the message of its grant", m.counts(), n)
	}
	n := s
	if m.ask(&n, c); n != s {
		out.Step('A'+c, "polls", m.counts(), n)
	}
	if n := s; model.Spend(&n.leaves) {
		m.resign(&n, c)
		out.Loud('A'+c, "its caller leaves", n)
	}
}

// resign sends the release. The leadership is not trusted any more.
func (m *electing) resign(s *state, c int) {
	cd := &s.c[c]
	cd.mode, cd.at, cd.trust, cd.renewed, cd.mail, cd.stands = resigning, server.Sent, 0, 0, 0, 0
}

// commands are the announcement and the release of a candidate: executed, answered, given up.
func (m *electing) commands(s state, c int, out *steps) {
	cd := &s.c[c]
	n := s
	nc := &n.c[c]
	if cd.at == server.Sent {
		nc.at = server.Done
		if a := m.run(&n, m.command(&s, c)); a.status == lua.Gone {
			nc.at = server.Gone
		}
		out.Step('A'+c, "the server executes its command", m.counts(), n)
	} else {
		switch at := cd.at; {
		case cd.mode == resigning:
			n.finish(c, false)
		case at == server.Done:
			nc.at = server.None
			m.leads(&n, c)
		default:
			m.fails(&n, c)
		}
		out.Step('A'+c, "gets the answer", m.counts(), n)
	}
	if !model.Spend(&s.faults) {
		return
	}
	n = s
	m.abandon(&n, c)
	n.c[c].at = server.Sent
	out.Loud('A'+c, "hears nothing and sends again", n)
	m.abandon(&s, c)
	if cd.mode == announcing {
		m.fails(&s, c)
	} else {
		s.finish(c, true)
	}
	out.Loud('A'+c, "hears nothing and gives up", s)
}

// command is what a candidate has under way.
func (m *electing) command(s *state, c int) request {
	if s.c[c].mode == resigning {
		return request{kind: release, id: s.id(c)}
	}
	return request{kind: announce, id: s.id(c), token: s.c[c].token}
}

// abandon leaves a command to the network: it may arrive at any time from here on, or never; without room for it, never.
func (m *electing) abandon(s *state, c int) {
	cd := &s.c[c]
	if cd.at == server.Sent && (cd.mode == announcing || cd.mode == resigning) &&
		!model.Put(s.net[:], m.command(s, c)) {
		m.cut++
	}
}

// fails is a campaign that could not be announced: the leadership is given back.
func (m *electing) fails(s *state, c int) {
	if m.off.Has(givesBack) {
		s.finish(c, false)
		return
	}
	m.resign(s, c)
}

// finish ends a term. What may stand of it is undone.
func (s *state) finish(c int, undo bool) {
	cd := &s.c[c]
	if undo {
		s.undo |= 1 << s.id(c)
	}
	*cd = candidate{gen: cd.gen, wishes: cd.wishes, works: cd.works, lost: cd.lost}
}

// lose is a leadership that is not trusted any more: its context has ended.
func (m *electing) lose(s *state, c int) {
	cd := &s.c[c]
	m.abandon(s, c)
	if cd.mode != leading {
		s.finish(c, true)
		return
	}
	cd.lost = true
	s.undo |= 1 << s.id(c)
	if m.off.Has(waitLead) {
		s.finish(c, true)
		return
	}
	cd.mode, cd.trust, cd.renewed = over, 0, 0
}

// renews are the renewals of a leadership.
func (m *electing) renews(s state, c int, out *steps) {
	cd := &s.c[c]
	if cd.mode != announcing && cd.mode != leading {
		return
	}
	if cd.trust < m.lease-1 || s.owner != s.id(c) {
		n := s
		if a := m.run(&n, request{kind: renewal, id: s.id(c)}); a.status == lua.Done {
			n.c[c].renewed = m.lease - 1
		} else {
			m.lose(&n, c)
		}
		if n != s {
			out.Loud('A'+c, "renews", n)
		}
		if n := s; model.Spend(&n.faults) {
			if model.Put(n.net[:], request{kind: renewal, id: s.id(c)}) {
				out.Loud('A'+c, "renews, and that is late", n)
			}
		}
	}
	if cd.renewed > 0 {
		n := s
		n.c[c].trust, n.c[c].renewed = max(cd.trust, cd.renewed), 0
		out.Step('A'+c, "gets the answer to its renewal", m.counts(), n)
	}
}

// function is what the leader's function does, and the caller of Run.
func (m *electing) function(s state, c int, out *steps) {
	cd := &s.c[c]
	if cd.works == 0 {
		return
	}
	n := s
	nc := &n.c[c]
	nc.works, nc.lost = 0, false
	switch cd.mode {
	case leading:
		m.resign(&n, c)
	case over:
		n.finish(c, false)
	}
	out.Step('A'+c, "its function returns", m.counts(), n)
	if n := s; model.Spend(&n.ends) && cd.mode == leading {
		n.c[c].wishes = 0
		if m.off.Has(resignAfter) {
			m.resign(&n, c)
		}
		out.Loud('A'+c, "the context of Run ends", n)
	}
}
