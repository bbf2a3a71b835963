package quorum

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
	"github.com/holdfast-go/holdfast/lua"
)

// run executes a request at a master and notes what it did to whom.
func (m *voting) run(s *state, v *voter, l letter) (a server.Answer) {
	before := v.Keys
	switch l.kind {
	case acquire:
		a = v.Vote(m.off, l.id, 1, m.lease, l.token, l.step&agedVote != 0)
	case renewal:
		a = v.Renew(m.off, l.id, m.lease)
	case release, undoer:
		a = v.Release(m.off, l.id)
	}
	switch {
	case before.Owner == 0 && v.Owner != 0 && l.kind != acquire:
		s.wrong.Add(model.ErrBack)
	case before.Owner != 0 && before.Owner != l.id && before != v.Keys:
		s.wrong.Add(model.ErrAnothers)
	}
	return a
}

// leave gives a ballot back: one that failed, or a hold that is over.
func (m *voting) leave(s *state, c int) {
	cl := &s.candidates[c]
	elected := cl.mode == holding
	*cl = candidate{mode: leaving, gen: cl.gen}
	for i := range m.voters {
		b := &s.voters[i].ballots[c]
		b.marks &= held | counts | strayed | regrant
		b.holds, b.gapAt = 0, gapAt{}
		switch failed := !elected; {
		case failed && m.off.Has(withdraws):
			m.abandon(s, c, i, true)
			b.marks = 0
		case b.op == acquire: // the release follows it
		default:
			m.abandon(s, c, i, true)
			m.leaveAt(s, c, i)
		}
	}
	m.left(s, c)
}

// leaveAt sends the release to a master, if there may be something to release.
func (m *voting) leaveAt(s *state, c, i int) {
	b := &s.voters[i].ballots[c]
	b.token, b.last = 0, 0
	if b.marks&(held|strayed) == 0 {
		b.marks = 0
		return
	}
	b.op, b.at = release, server.Sent
	b.marks &= strayed
	if !m.lingers {
		m.run(s, &s.voters[i], letter{kind: release, id: ownerID(c, s.candidates[c].gen)})
		b.op, b.at = server.None, server.None
		m.released(s, c, i)
	}
}

// released is the answer to a release.
func (m *voting) released(s *state, c, i int) {
	b := &s.voters[i].ballots[c]
	if b.marks.has(strayed) {
		m.undoAt(s, i, ownerID(c, s.candidates[c].gen), undoStray)
	}
	b.marks = 0
}

// left makes a client idle when nothing of its ballot is under way.
func (m *voting) left(s *state, c int) {
	under := func(v voter) bool { return v.ballots[c].op != server.None }
	if !slices.ContainsFunc(s.voters[:m.voters], under) {
		s.candidates[c] = candidate{}
	}
}

// undoAt begins to release in the background, unless something does the same, and later.
func (m *voting) undoAt(s *state, i int, id uint8, why model.Defence) {
	net := s.voters[i].net[:]
	l := letter{kind: undoer, id: id, step: 1}
	same := func(o letter) bool { return o.kind == undoer && o.id == id && o.step <= l.step }
	if !m.off.Has(why) && model.Count(net, same) == 0 {
		s.full.Need(model.Put(net, l), &m.cut)
	}
}

// abandon leaves a request to the network. unheard says that nothing will be heard of it.
func (m *voting) abandon(s *state, c, i int, unheard bool) {
	b := &s.voters[i].ballots[c]
	if b.at == server.Sent {
		l := letter{kind: b.op, id: ownerID(c, s.candidates[c].gen), token: b.token}
		if unheard && b.op == acquire {
			l.step |= unheardVote
		}
		s.full.Cut(m.stragglers(s) < m.letters && model.Put(s.voters[i].net[:], l), &m.cut) // else it is lost
	}
	b.op, b.at, b.token, b.last, b.since = server.None, server.None, 0, 0, 0
	b.marks &^= regrant
}

func (m *voting) stragglers(s *state) (n int) {
	for i := range s.voters {
		n += model.Count(s.voters[i].net[:], func(l letter) bool { return l.kind != undoer })
	}
	return n
}

// fails are answers that do not come, or not in time.
func (m *voting) fails(s state, c, i int, out *steps) {
	cl, b := &s.candidates[c], &s.voters[i].ballots[c]
	if c >= m.frail || b.op == server.None || !model.Spend(&s.faults) {
		return
	}
	if cl.mode == leaving && b.op == acquire && b.at == server.Sent { // the release does not wait for it any longer
		n := s
		m.abandon(&n, c, i, false)
		nb := &n.voters[i].ballots[c]
		nb.op, nb.at, nb.marks = release, server.Sent, nb.marks&strayed
		out.Loud('A'+c, "releases before a vote was answered", n)
	}
	op := b.op
	m.abandon(&s, c, i, true)
	if op == release {
		b.marks = 0
		m.undoAt(&s, i, ownerID(c, cl.gen), undoStray)
		m.left(&s, c)
		out.Loud('A'+c, "hears that there will be no answer", s)
		return
	}
	if op == acquire {
		b.marks |= strayed
	}
	switch {
	case cl.mode == leaving:
		m.leaveAt(&s, c, i)
		m.left(&s, c)
	case cl.mode == holding && !cl.round:
	case !b.marks.has(asked):
		m.ask(&s, c, i)
	default:
		b.marks |= failed
		m.decide(&s, c)
	}
	out.Loud('A'+c, "hears that there will be no answer", s)
}

// leaves are candidates that have waited long enough for the others, and a process that dies.
func (m *voting) leaves(s state, c int, out *steps) {
	cl := &s.candidates[c]
	if c >= m.frail {
		return
	}
	if n := s; model.Spend(&n.faults) && (cl.mode == electing || cl.mode == telling) {
		m.leave(&n, c)
		out.Loud('A'+c, "has waited long enough", n)
	}
	if cl.mode == idle || !model.Spend(&s.crashes) {
		return
	}
	for i := range m.voters {
		v := &s.voters[i]
		m.abandon(&s, c, i, true)
		v.ballots[c] = ballot{}
		model.Change(v.net[:], func(l letter) (letter, bool) {
			own := candidateOf(l.id) == c
			if own {
				l.step |= unheardVote
			}
			return l, !own || l.kind != undoer
		})
	}
	*cl = candidate{}
	out.Loud('A'+c, "dies", s)
}

func candidateOf(id uint8) int { return int(id-1) / gens }

// network is what becomes of letters.
func (m *voting) network(s state, i int, out *steps) {
	for k, l := range model.Different(s.voters[i].net[:]) {
		c := candidateOf(l.id)
		n := s
		model.Take(n.voters[i].net[:], k)
		lost := n
		switch {
		case l.kind != undoer:
			m.ends(&lost, i, l)
			out.Quiet('A'+c, "a late message is lost", lost)
			if a := m.run(&n, &n.voters[i], l); a.Status == lua.Done {
				m.ends(&n, i, l)
			}
			out.Quiet('A'+c, "a late message arrives", n)
		case l.step != undoPause:
			m.undoes(&n, i, l)
			out.Quiet('A'+c, "an undo releases", n)
		}
	}
}

// ends is what a client hears at the end of a vote that it did not wait for: that it was granted, or that no answer comes.
func (m *voting) ends(s *state, i int, l letter) {
	if l.kind == acquire && l.step&unheardVote == 0 {
		m.undoAt(s, i, l.id, undoLate)
	}
}

// Steps of an undo: two releases, one after the other, a pause that is longer than a message lives, and another release.
const undoPause = 3

// undoes is a step of an undo.
func (m *voting) undoes(s *state, i int, l letter) {
	v := &s.voters[i]
	m.run(s, v, l)
	if l.step++; l.step <= undoPause && !m.off.Has(undoAgain) {
		model.Put(v.net[:], l) // where it was
	}
}

// restarts are masters that come back without their data. Requests that were under way may come to the new process. Where keys
// are deleted too, a master is started anew that holds the lock for A, for that is what A makes of it; or that never did.
func (m *voting) restarts(s state, i int, out *steps) {
	v := &s.voters[i]
	if a := &v.ballots[0]; s.losses == 0 || m.gaps(0) &&
		(a.marks.has(early) || a.marks.has(granted) && (v.Owner == 0 || candidateOf(v.Owner) != 0)) {
		return
	}
	s.losses--
	if v.ballots[0].marks.has(granted) && m.gaps(0) {
		v.ballots[0].marks |= renewed
	}
	v.Keys, v.age = server.Keys{}, 0
	for c := range v.ballots {
		if b := &v.ballots[c]; b.knows != stranger {
			b.knows = metOther
		}
	}
	out.Loud(0, "a master is started anew and has lost its data", s)
}

// time is a tick of all clocks.
func (m *voting) time(s state, out *steps) {
	if m.still || m.forgets > 0 && m.busy(&s) {
		return
	}
	for i := range m.voters {
		v := &s.voters[i]
		v.Tick()
		v.age = min(v.age+1, m.lease)
		m.netTick(&s, i)
	}
	for c := range s.candidates {
		m.gapTick(&s, c)
		cl := &s.candidates[c]
		if elects := cl.mode == electing || cl.mode == telling; elects && m.patience > 0 && cl.age == m.patience &&
			!m.off.Has(electsSoon) {
			m.leave(&s, c)
		}
		if cl.mode == electing || cl.mode == telling || cl.round {
			cl.age = min(cl.age+1, m.lease-1)
		}
		if cl.mode != holding {
			continue
		}
		switch {
		case cl.trust > 1:
			cl.trust--
		case !m.off.Has(deadline):
			m.leave(&s, c)
		}
	}
	if s.clock != 0 { // what is a tick here is thousands of the clock that proposals are made of
		s.clock = max(s.clock, s.top+1+m.forgets) // more than masters add by themselves
		for i := range s.voters {
			s.clock = max(s.clock, s.voters[i].Token+1+m.forgets)
			for c := range s.candidates {
				s.clock = max(s.clock, s.voters[i].ballots[c].told+1+m.forgets)
			}
		}
	}
	out.Quiet(0, "time passes", s)
}

// netTick ends the lives of stragglers where they have one, and the pauses of undos. Only votes live on: the last release of an
// undo comes when they are too late. As what refuses itself changes nothing, they are kept where they do not.
func (m *voting) netTick(s *state, i int) {
	v := &s.voters[i]
	old := v.net
	v.net = [maxLetters]letter{}
	for _, l := range model.Under(old[:]) {
		switch {
		case l.kind == undoer && l.step == undoPause:
			l.step++
		case l.kind != undoer && m.brief:
			if m.ends(s, i, l); l.kind != acquire || !m.off.Has(server.Lateness) {
				continue
			}
			l.step = unheardVote | agedVote
		}
		s.full = s.full || model.Full(!model.Put(v.net[:], l))
	}
}
