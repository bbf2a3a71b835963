package quorum

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

// next takes every step that can be taken in s.
func (m *voting) next(s state, out *steps) {
	if m.settled(&s) {
		return
	}
	for c := range candidates {
		m.wants(s, c, out)
		for i := range m.voters {
			if i == 0 || s.voters[i] != s.voters[i-1] { // those that are alike go on alike
				m.answers(s, c, i, out)
				m.fails(s, c, i, out)
			}
		}
		m.leaves(s, c, out)
	}
	for i := range m.voters {
		if i == 0 || s.voters[i] != s.voters[i-1] {
			m.network(s, i, out)
			m.restarts(s, i, out)
			m.forgetsKeys(s, i, out)
		}
	}
	m.time(s, out)
}

// wants are the wishes of a user, and what the watchdog does.
func (m *voting) wants(s state, c int, out *steps) {
	cl := &s.candidates[c]
	switch {
	case m.alone && c > 0:
	case cl.mode == idle && (m.wishes[c] == 0 || s.stood[c] < m.wishes[c]):
		m.stand(&s, c)
		out.Step('A'+c, "asks all masters for the lock", m.serves, s)
	case cl.mode == holding:
		n := s
		m.leave(&n, c)
		out.Quiet('A'+c, "unlocks", n)
		if m.watched(c) && !cl.round && cl.trust < m.lease-1 {
			cl.round, cl.age = true, 0
			if cl.visited != 0 {
				cl.visited = min(cl.visited+1, heardAll)
			}
			m.askAll(&s, c)
			out.Loud('A'+c, "renews", s)
		}
	}
}

// stand begins an election.
func (m *voting) stand(s *state, c int) {
	cl := &s.candidates[c]
	gen := uint8(0)
	for !m.off.Has(freshBallot) && s.used(ownerID(c, gen)) {
		if gen++; gen == gens {
			s.full.Need(false, &m.cut)
			return
		}
	}
	if m.wishes[c] != 0 {
		s.stood[c]++
	}
	*cl = candidate{mode: electing, gen: gen}
	if s.clock != 0 {
		cl.first = s.clock
		if s.clock++; m.off.Has(clockAhead) {
			cl.first = 1
		}
		cl.token = cl.first + max(m.block, 1) - 1
	}
	m.askAll(s, c)
}

// askAll begins a round: all masters are asked. Where an earlier request has no answer yet, this one follows it.
func (m *voting) askAll(s *state, c int) {
	for i := range m.voters {
		b := &s.voters[i].ballots[c]
		b.marks &^= asked | yes | no | failed
		b.holds = 0
		if b.op == server.None {
			m.ask(s, c, i)
		}
	}
}

// ask sends a vote to a master, or a renewal where it is believed to know the hold.
func (m *voting) ask(s *state, c, i int) {
	cl, b := &s.candidates[c], &s.voters[i].ballots[c]
	b.marks |= asked
	b.op, b.at = acquire, server.Sent
	b.token, b.last, b.since = cl.token, 0, 0
	if cl.mode == holding && b.marks.has(held) {
		b.op, b.token = renewal, 0
	}
}

// answers are a request that a master executes, and an answer that comes.
func (m *voting) answers(s state, c, i int, out *steps) {
	v := &s.voters[i]
	b := &v.ballots[c]
	switch b.at {
	case server.None:
	case server.Sent:
		a := m.run(&s, v, letter{kind: b.op, id: ownerID(c, s.candidates[c].gen), token: b.token})
		b.at, b.token = a.Stands(), a.Token
		if (m.block > 1 || m.gaps(c)) && b.at == server.Done {
			b.last = a.Before
		}
		if a.Again {
			b.marks |= regrant
		}
		if (m.weak || m.renews) && b.op == acquire {
			b.holds = a.Holder
		}
		if c >= m.slow {
			m.hears(&s, c, i)
		}
		out.Quiet('A'+c, "a master executes its request", s)
	default:
		m.hears(&s, c, i)
		out.Quiet('A'+c, "gets an answer", s)
	}
}

// hears is what a client makes of an answer.
func (m *voting) hears(s *state, c, i int) {
	cl, v := &s.candidates[c], &s.voters[i]
	b := &v.ballots[c]
	op, at := b.op, b.at
	b.op, b.at = server.None, server.None
	if op == release {
		m.released(s, c, i)
		m.left(s, c)
		return
	}
	m.note(s, v, c, op, at)
	switch {
	case cl.mode == leaving:
		m.leaveAt(s, c, i)
		m.left(s, c)
	case cl.mode == holding && !cl.round:
		b.token, b.last = 0, 0
	case !b.marks.has(asked), op == renewal && at == server.Gone: // to take the hold back
		m.ask(s, c, i)
	case at == server.Done:
		b.marks |= yes
		m.decide(s, c)
	default:
		b.marks |= no
		m.decide(s, c)
	}
}

// note is what is known of a ballot from an answer on.
func (m *voting) note(s *state, v *voter, c int, op, at uint8) {
	cl := &s.candidates[c]
	b := &v.ballots[c]
	if m.gaps(c) && cl.mode != leaving {
		m.track(s, v, c, op, at)
	}
	b.since = 0
	b.marks &^= held | early
	if at == server.Done {
		b.marks |= held
	}
	if at != server.Done || op == acquire && !b.marks.has(regrant) {
		b.marks &^= counts
	}
	b.marks &^= regrant
	if at != server.Done {
		b.token, b.last = 0, 0
		return
	}
	if b.marks.has(counts) {
		return
	}
	b.holds = 0
	if m.weak {
		b.look()
	}
	if b.again <= 0 && (m.believes(s, v, c) || cl.mode == holding && m.off.Has(joinsYoung)) {
		b.marks |= counts
	}
}

// count is at how many masters all these marks are.
func (m *voting) count(s *state, c int, all marks) (n int) {
	for i := range m.voters {
		if s.voters[i].ballots[c].marks.has(all) {
			n++
		}
	}
	return n
}

// need is how many have to agree.
func (m *voting) need() int {
	if m.off.Has(majority) {
		return m.voters / 2
	}
	return m.voters/2 + 1
}

// decide ends a round when it is clear how it ends.
func (m *voting) decide(s *state, c int) {
	cl := &s.candidates[c]
	if m.weak && !m.off.Has(judgedAnew) {
		m.judge(s, c)
	}
	votes, refused := m.count(s, c, yes|counts), m.count(s, c, no)
	all := m.count(s, c, yes)+refused+m.count(s, c, failed) == m.voters
	switch cl.mode {
	case electing:
		young := m.weak && m.young(s, c)
		switch {
		case votes >= m.need() && (!young || all):
			if young && m.contested(s, c) && !m.off.Has(contests) {
				m.leave(s, c)
			} else {
				m.agree(s, c)
			}
		case refused > m.voters-m.need() || all:
			m.leave(s, c)
		}
	case telling:
		agreed := 0
		for i := range m.voters {
			if b := &s.voters[i].ballots[c]; b.marks.has(yes|counts) && b.token == cl.token {
				agreed++
			}
		}
		if agreed >= m.need() {
			m.wins(s, c)
		} else if all {
			m.leave(s, c)
		}
	case holding:
		switch {
		case m.owned(s, c) > m.voters-m.need() || m.overtaken(s, c, true, all):
			s.wrong.If(m.alone && !m.flush, model.ErrFalse) // nobody else ever wanted the lock, and tokens were kept
			m.leave(s, c)
		case votes >= m.need() && !m.overtaken(s, c, false, all):
			s.wrong.If(cl.visited == heardAll, errVisited)
			cl.trust = max(cl.trust, m.trusted(cl))
			m.endRound(s, c)
		case all:
			m.endRound(s, c)
		}
	}
}

func (m *voting) endRound(s *state, c int) {
	cl := &s.candidates[c]
	cl.round, cl.age = false, 0
	for i := range m.voters {
		b := &s.voters[i].ballots[c]
		b.marks &^= asked | yes | no | failed
		b.holds = 0
		if b.op == server.None {
			b.token, b.last = 0, 0
		}
	}
}

// trusted is for how long a lease is trusted that was asked for so long ago.
func (m *voting) trusted(cl *candidate) uint8 {
	if m.off.Has(sentTime) {
		return m.lease - 1
	}
	return m.lease - 1 - min(cl.age, m.lease-1)
}

// agree settles the token of an election that is won.
func (m *voting) agree(s *state, c int) {
	cl := &s.candidates[c]
	proposed, least, same := cl.token, uint8(model.Endless), 0
	cl.token = 0
	for i := range m.voters {
		b := &s.voters[i].ballots[c]
		if !b.marks.has(yes | counts) {
			continue
		}
		if m.block > 1 && !m.off.Has(aboveKnown) {
			cl.first = max(cl.first, b.last+1)
		}
		if m.gaps(c) {
			cl.before = max(cl.before, b.last)
		}
		if b.token > cl.token {
			cl.token, same = b.token, 0
		}
		if b.token == cl.token {
			same++
		}
		least = min(least, b.token)
	}
	if m.off.Has(greatest) {
		cl.token = least
	}
	if cl.token != proposed {
		cl.first = cl.token
	}
	if same >= m.need() || m.off.Has(tellsToken) || m.off.Has(greatest) || s.clock == 0 {
		m.wins(s, c)
		return
	}
	cl.mode = telling
	m.askAll(s, c)
}

// wins makes the grant live.
func (m *voting) wins(s *state, c int) {
	cl := &s.candidates[c]
	trust := m.trusted(cl)
	if trust == 0 {
		m.leave(s, c)
		return
	}
	s.wrong.If(cl.first <= s.top && s.clock != 0, model.ErrToken)
	s.top, cl.first = max(s.top, cl.token), 0
	if !m.renews {
		cl.token = 0 // nobody is told of it any more
	}
	cl.mode, cl.trust = holding, trust
	for other := range s.candidates {
		if o := &s.candidates[other]; other != c && o.mode == holding && o.visited == 0 && m.watched(other) {
			o.visited = 1
		}
	}
	if m.gaps(c) {
		m.begin(s, c)
	}
	m.endRound(s, c)
}
