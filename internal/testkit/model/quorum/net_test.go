package quorum

import "github.com/holdfast-go/holdfast/lua"

func outcome(a answer) uint8 {
	return map[lua.Status]uint8{lua.Done: done, lua.Denied: denied, lua.Gone: gone}[a.status]
}

// run executes a request at a master and notes what it did to whom.
func (m *voting) run(s *state, v *voter, l letter) (a answer) {
	before := v.keys
	switch l.kind {
	case acquire:
		a = v.vote(m.off, l.id, 1, m.lease, l.token, l.step&agedVote != 0)
	case renewal:
		a = v.renew(m.off, l.id, m.lease)
	case release, undoer:
		a = v.release(m.off, l.id)
	}
	switch {
	case before.owner == 0 && v.owner != 0 && l.kind != acquire:
		s.wrong |= broughtBack
	case before.owner != 0 && before.owner != l.id && before != v.keys:
		s.wrong |= anothers
	}
	return a
}

// leave gives a ballot back: one that failed, or a hold that is over.
func (m *voting) leave(s *state, c int) bool {
	cl := &s.candidates[c]
	elected := cl.mode == holding
	*cl = candidate{mode: leaving, gen: cl.gen}
	for i := range m.voters {
		b := &s.voters[i].ballots[c]
		b.marks &= held | counts | strayed | regrant
		b.holds, b.gapAt = 0, gapAt{}
		switch failed := !elected; {
		case failed && m.off.has(withdraws):
			m.abandon(s, c, i, true)
			b.marks = 0
		case b.op == acquire: // the release follows it
		default:
			m.abandon(s, c, i, true)
			if !m.leaveAt(s, c, i) {
				return false
			}
		}
	}
	return m.left(s, c)
}

// leaveAt sends the release to a master, if there may be something to release.
func (m *voting) leaveAt(s *state, c, i int) bool {
	b := &s.voters[i].ballots[c]
	b.token, b.last = 0, 0
	if b.marks&(held|strayed) == 0 {
		b.marks = 0
		return true
	}
	b.op, b.at = release, sent
	b.marks &= strayed
	if m.quick {
		m.run(s, &s.voters[i], letter{kind: release, id: ownerID(c, s.candidates[c].gen)})
		b.op, b.at = none, none
		return m.released(s, c, i)
	}
	return true
}

// released is the answer to a release.
func (m *voting) released(s *state, c, i int) bool {
	b := &s.voters[i].ballots[c]
	stray := b.marks.has(strayed)
	b.marks = 0
	return !stray || m.undoAt(s, i, ownerID(c, s.candidates[c].gen), undoStray)
}

// left makes a client idle when nothing of its ballot is under way.
func (m *voting) left(s *state, c int) bool {
	for i := range m.voters {
		if s.voters[i].ballots[c].op != none {
			return true
		}
	}
	s.candidates[c] = candidate{}
	return true
}

// undoAt begins to release in the background.
func (m *voting) undoAt(s *state, i int, id uint8, why defence) bool {
	if m.off.has(why) {
		return true
	}
	l := letter{kind: undoer, id: id, step: 1}
	for _, other := range s.voters[i].net {
		if other.kind == undoer && other.id == id && other.step <= l.step {
			return true // it does the same, and later
		}
	}
	return m.keep(s, i, l)
}

func (m *voting) keep(s *state, i int, l letter) bool {
	if !s.voters[i].put(l) {
		m.cut++
		return false
	}
	return true
}

// abandon leaves a request to the network. unheard says that nothing will be heard of it.
func (m *voting) abandon(s *state, c, i int, unheard bool) {
	b := &s.voters[i].ballots[c]
	if b.at == sent {
		l := letter{kind: b.op, id: ownerID(c, s.candidates[c].gen), token: b.token}
		if unheard && b.op == acquire {
			l.step |= unheardVote
		}
		if m.letters == 0 || m.stragglers(s) >= m.letters || !s.voters[i].put(l) {
			m.cut++
		}
	}
	b.op, b.at, b.token, b.last, b.since = none, none, 0, 0, 0
	b.marks &^= regrant
}

func (m *voting) stragglers(s *state) (n int) {
	for i := range s.voters {
		for _, l := range s.voters[i].net {
			if l.kind != none && l.kind != undoer {
				n++
			}
		}
	}
	return n
}

// fails are answers that do not come, or not in time.
func (m *voting) fails(s state, c, i int, emit func(string, state)) {
	cl, b := &s.candidates[c], &s.voters[i].ballots[c]
	if s.faults == 0 || c >= m.frail || b.op == none {
		return
	}
	s.faults--
	if cl.mode == leaving && b.op == acquire && b.at == sent { // the release does not wait for it any longer
		n := s
		m.abandon(&n, c, i, false)
		nb := &n.voters[i].ballots[c]
		nb.op, nb.at, nb.marks = release, sent, nb.marks&strayed
		emit(labels[c][vOvertakes], n)
	}
	op := b.op
	m.abandon(&s, c, i, true)
	if op == release {
		b.marks = 0
		if m.undoAt(&s, i, ownerID(c, cl.gen), undoStray) && m.left(&s, c) {
			emit(labels[c][vHearsNot], s)
		}
		return
	}
	if op == acquire {
		b.marks |= strayed
	}
	ok := true
	switch {
	case cl.mode == leaving:
		ok = m.leaveAt(&s, c, i) && m.left(&s, c)
	case cl.mode == holding && !cl.round:
	case !b.marks.has(asked):
		m.ask(&s, c, i)
	default:
		b.marks |= failed
		ok = m.decide(&s, c)
	}
	if ok {
		emit(labels[c][vHearsNot], s)
	}
}

// leaves are candidates that have waited long enough for the others, and a process that dies.
func (m *voting) leaves(s state, c int, emit func(string, state)) {
	cl := &s.candidates[c]
	if c >= m.frail {
		return
	}
	if s.faults > 0 && (cl.mode == electing || cl.mode == telling) {
		n := s
		n.faults--
		if m.leave(&n, c) {
			emit(labels[c][vWaited], n)
		}
	}
	if s.crashes == 0 || cl.mode == idle {
		return
	}
	s.crashes--
	for i := range m.voters {
		v := &s.voters[i]
		m.abandon(&s, c, i, true)
		v.ballots[c] = ballot{}
		net := v.net
		v.net = [maxLetters]letter{}
		for _, l := range net {
			switch own := l.kind != none && candidateOf(l.id) == c; {
			case l.kind == none || own && l.kind == undoer:
				continue
			case own:
				l.step |= unheardVote
			}
			_ = v.put(l)
		}
	}
	*cl = candidate{}
	emit(labels[c][vDies], s)
}

func candidateOf(id uint8) int { return int(id-1) / gens }

// network is what becomes of letters.
func (m *voting) network(s state, i int, emit func(string, state)) {
	for k, l := range s.voters[i].net {
		if l.kind == none || k > 0 && l == s.voters[i].net[k-1] {
			continue
		}
		c := candidateOf(l.id)
		n := s
		v := &n.voters[i]
		v.take(k)
		if l.kind == undoer {
			if m.undoes(&n, i, l) {
				emit(labels[c][vUndoes], n)
			}
			continue
		}
		if m.ends(&n, i, l, answer{}, false) {
			emit(labels[c][vDropped], n)
		}
		n = s
		v = &n.voters[i]
		v.take(k)
		a := m.run(&n, v, l)
		if m.ends(&n, i, l, a, true) {
			emit(labels[c][vStraggler], n)
		}
	}
}

// ends is what a client hears in the end of a vote that it did not wait for: an answer, or that
// there will be none.
func (m *voting) ends(s *state, i int, l letter, a answer, answered bool) bool {
	if l.kind != acquire || l.step&unheardVote != 0 || answered && a.status != lua.Done {
		return true
	}
	return m.undoAt(s, i, l.id, undoLate)
}

// Steps of an undo: two releases, one after the other, a pause that is longer than a message lives,
// and another release.
const undoPause = 3

// undoes is a step of an undo.
func (m *voting) undoes(s *state, i int, l letter) bool {
	if l.step == undoPause {
		return false
	}
	m.run(s, &s.voters[i], l)
	if l.step++; m.off.has(undoAgain) || l.step > undoPause {
		return true
	}
	return m.keep(s, i, l)
}

// restarts are masters that come back without their data. Requests that were under way may come to
// the new process. Where keys are deleted too, a master is started anew that holds the lock for A,
// for that is what A makes of it; or that never did.
func (m *voting) restarts(s state, i int, emit func(string, state)) {
	v := &s.voters[i]
	if a := &v.ballots[0]; s.losses == 0 || m.gaps(0) &&
		(a.marks.has(early) || a.marks.has(granted) && (v.owner == 0 || candidateOf(v.owner) != 0)) {
		return
	}
	s.losses--
	if v.ballots[0].marks.has(granted) && m.gaps(0) {
		v.ballots[0].marks |= renewed
	}
	v.keys, v.age = keys{}, 0
	for c := range v.ballots {
		if b := &v.ballots[c]; b.knows != stranger {
			b.knows = metOther
		}
	}
	emit(restartLabel, s)
}

// time is a tick of all clocks.
func (m *voting) time(s state, emit func(string, state)) {
	if m.still || m.forgets > 0 && m.busy(&s) {
		return
	}
	for i := range m.voters {
		v := &s.voters[i]
		v.tick()
		v.age = min(v.age+1, m.lease)
		if !m.netTick(&s, i) {
			return
		}
	}
	for c := range s.candidates {
		m.gapTick(&s, c)
		cl := &s.candidates[c]
		if elects := cl.mode == electing || cl.mode == telling; elects && m.patience > 0 && cl.age == m.patience &&
			!m.off.has(electsSoon) && !m.leave(&s, c) {
			return
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
		case !m.off.has(deadline) && !m.leave(&s, c):
			return
		}
	}
	if s.clock != 0 { // what is a tick here is thousands of the clock that proposals are made of
		s.clock = max(s.clock, s.top+1+m.forgets) // more than masters add by themselves
		for i := range s.voters {
			s.clock = max(s.clock, s.voters[i].token+1+m.forgets)
			for c := range s.candidates {
				s.clock = max(s.clock, s.voters[i].ballots[c].told+1+m.forgets)
			}
		}
	}
	emit(tickLabel, s)
}

// netTick ends the lives of stragglers where they have one, and the pauses of undos. Only votes
// live on: the last release of an undo comes when they are too late. As what refuses itself changes
// nothing, they are kept where they do not.
func (m *voting) netTick(s *state, i int) bool {
	v := &s.voters[i]
	old := v.net
	v.net = [maxLetters]letter{}
	for _, l := range old {
		switch {
		case l.kind == none:
			continue
		case l.kind == undoer && l.step == undoPause:
			l.step++
		case l.kind != undoer && m.brief:
			if !m.ends(s, i, l, answer{}, false) {
				return false
			}
			if l.kind != acquire || !m.off.has(lateness) {
				continue
			}
			l.step = unheardVote | agedVote
		}
		if !v.put(l) {
			return false
		}
	}
	return true
}
