package lua_test

import "github.com/holdfast-go/holdfast/lua"

func voteOutcome(a voteAnswer) uint8 {
	return map[lua.Status]uint8{lua.Done: done, lua.Denied: denied, lua.Gone: gone}[a.status]
}

// run executes a request at a master and notes what it did to whom.
func (m *voting) run(s *voteState, v *voter, l letter) (a voteAnswer) {
	before := v.voterKeys
	switch l.kind {
	case acquire:
		a = v.vote(m.off, l.id, 1, m.lease, l.token)
	case renewal:
		a = v.renew(m.off, l.id, m.lease)
	case release, undoer:
		a = v.release(m.off, l.id)
	}
	switch {
	case before.owner == 0 && v.owner != 0 && l.kind != acquire:
		s.wrong |= broughtBack
	case before.owner != 0 && before.owner != l.id && before != v.voterKeys:
		s.wrong |= anothers
	}
	return a
}

// leave gives a ballot back: one that failed, or a hold that is over.
func (m *voting) leave(s *voteState, c int) bool {
	cl := &s.candidates[c]
	elected := cl.mode == holding
	*cl = candidate{mode: leaving, gen: cl.gen, free: cl.free}
	for i := range m.voters {
		b := &s.voters[i].ballots[c]
		b.marks &= held | counts | strayed | regrant
		b.holds = 0
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
func (m *voting) leaveAt(s *voteState, c, i int) bool {
	b := &s.voters[i].ballots[c]
	b.token, b.last = 0, 0
	if b.marks&(held|strayed) == 0 {
		b.marks = 0
		return true
	}
	b.op, b.at = release, sent
	b.marks &= strayed
	if m.quick {
		m.run(s, &s.voters[i], letter{kind: release, id: ballotID(c, s.candidates[c].gen)})
		b.op, b.at = none, none
		return m.released(s, c, i)
	}
	return true
}

// released is the answer to a release.
func (m *voting) released(s *voteState, c, i int) bool {
	b := &s.voters[i].ballots[c]
	stray := b.marks.has(strayed)
	b.marks = 0
	return !stray || m.undoAt(s, i, ballotID(c, s.candidates[c].gen), undoStray)
}

// left makes a client idle when nothing of its ballot is under way.
func (m *voting) left(s *voteState, c int) bool {
	for i := range m.voters {
		if s.voters[i].ballots[c].op != none {
			return true
		}
	}
	s.candidates[c] = candidate{free: s.candidates[c].free}
	return true
}

// undoAt begins to release in the background.
func (m *voting) undoAt(s *voteState, i int, id uint8, why voteDefence) bool {
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

func (m *voting) keep(s *voteState, i int, l letter) bool {
	if !s.voters[i].put(l) {
		m.cut++
		return false
	}
	return true
}

// abandon leaves a request to the network. unheard says that nothing will be heard of it.
func (m *voting) abandon(s *voteState, c, i int, unheard bool) {
	b := &s.voters[i].ballots[c]
	if b.at == sent {
		l := letter{kind: b.op, id: ballotID(c, s.candidates[c].gen), token: b.token}
		if unheard && b.op == acquire {
			l.step = 1
		}
		if m.letters == 0 || m.stragglers(s) >= m.letters || !s.voters[i].put(l) {
			m.cut++
		}
	}
	b.op, b.at, b.token, b.last = none, none, 0, 0
	b.marks &^= regrant
}

func (m *voting) stragglers(s *voteState) (n int) {
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
func (m *voting) fails(s voteState, c, i int, emit func(string, voteState)) {
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
		emit(voteLabels[c][vOvertakes], n)
	}
	op := b.op
	m.abandon(&s, c, i, true)
	if op == release {
		b.marks = 0
		if m.undoAt(&s, i, ballotID(c, cl.gen), undoStray) && m.left(&s, c) {
			emit(voteLabels[c][vHearsNot], s)
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
		emit(voteLabels[c][vHearsNot], s)
	}
}

// leaves are candidates that have waited long enough for the others, and a process that dies.
func (m *voting) leaves(s voteState, c int, emit func(string, voteState)) {
	cl := &s.candidates[c]
	if c >= m.frail {
		return
	}
	if s.faults > 0 && (cl.mode == electing || cl.mode == telling) {
		n := s
		n.faults--
		if m.leave(&n, c) {
			emit(voteLabels[c][vWaited], n)
		}
	}
	if s.crashes == 0 || cl.mode == idle {
		return
	}
	s.crashes--
	for i := range m.voters {
		v := &s.voters[i]
		m.abandon(&s, c, i, true)
		v.ballots[c] = ballotAt{}
		net := v.net
		v.net = [voterLetters]letter{}
		for _, l := range net {
			switch own := l.kind != none && ballotOf(l.id) == c; {
			case l.kind == none || own && l.kind == undoer:
				continue
			case own:
				l.step = 1
			}
			_ = v.put(l)
		}
	}
	*cl = candidate{}
	emit(voteLabels[c][vDies], s)
}

func ballotOf(id uint8) int { return int(id-1) / gens }

// network is what becomes of letters.
func (m *voting) network(s voteState, i int, emit func(string, voteState)) {
	for k, l := range s.voters[i].net {
		if l.kind == none || k > 0 && l == s.voters[i].net[k-1] {
			continue
		}
		c := ballotOf(l.id)
		n := s
		v := &n.voters[i]
		v.take(k)
		if l.kind == undoer {
			if m.undoes(&n, i, l) {
				emit(voteLabels[c][vUndoes], n)
			}
			continue
		}
		if m.ends(&n, i, l, voteAnswer{}, false) {
			emit(voteLabels[c][vDropped], n)
		}
		n = s
		v = &n.voters[i]
		v.take(k)
		a := m.run(&n, v, l)
		if m.ends(&n, i, l, a, true) {
			emit(voteLabels[c][vStraggler], n)
		}
	}
}

// ends is what a client hears in the end of a vote that it did not wait for: an answer, or that there will be none.
func (m *voting) ends(s *voteState, i int, l letter, a voteAnswer, answered bool) bool {
	if l.kind != acquire || l.step != 0 || answered && a.status != lua.Done {
		return true
	}
	return m.undoAt(s, i, l.id, undoLate)
}

// undoes is a step of an undo; as in the other models the pause is longer than a message lives.
func (m *voting) undoes(s *voteState, i int, l letter) bool {
	if l.step == undoPause {
		return false
	}
	m.run(s, &s.voters[i], l)
	if l.step++; m.off.has(voteAgain) || l.step > undoPause {
		return true
	}
	return m.keep(s, i, l)
}

// restarts are masters that come back without their data. Requests that were under way may come to the new process.
func (m *voting) restarts(s voteState, i int, emit func(string, voteState)) {
	if s.losses == 0 {
		return
	}
	s.losses--
	v := &s.voters[i]
	v.voterKeys, v.age = voterKeys{}, 0
	for c := range v.ballots {
		if b := &v.ballots[c]; b.knows != stranger {
			b.knows = metOther
		}
	}
	emit(voteRestarts, s)
}

// time is a tick of all clocks.
func (m *voting) time(s voteState, emit func(string, voteState)) {
	if m.still {
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
		cl := &s.candidates[c]
		if cl.mode == electing || cl.mode == telling || cl.round {
			cl.age = min(cl.age+1, m.lease-1)
		}
		if cl.mode != holding {
			continue
		}
		switch {
		case cl.trust > 1:
			cl.trust--
		case !m.off.has(voteDeadline) && !m.leave(&s, c):
			return
		}
	}
	if s.clock != 0 { // what is a tick here is thousands of the clock that proposals are made of
		s.clock = max(s.clock, s.top+1)
		for i := range s.voters {
			s.clock = max(s.clock, s.voters[i].token+1)
		}
	}
	emit(tickLabel, s)
}

// netTick ends the lives of stragglers where they have one, and the pauses of undos.
func (m *voting) netTick(s *voteState, i int) bool {
	v := &s.voters[i]
	old := v.net
	v.net = [voterLetters]letter{}
	for _, l := range old {
		switch {
		case l.kind == none:
			continue
		case l.kind == undoer && l.step == undoPause:
			l.step++
		case l.kind != undoer && m.brief:
			if !m.ends(s, i, l, voteAnswer{}, false) {
				return false
			}
			continue
		}
		if !v.put(l) {
			return false
		}
	}
	return true
}
