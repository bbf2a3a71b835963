package quorum

// What a client makes of masters that were started less than a lease ago. The strict rule is that
// they do not count. The one that the library has lets a set of masters vote that were started
// together, so that nobody has to wait for a lease when they are new: see master.Run.Doubt, and
// young and contested of its elections.

// look is what a client knows once it has asked for the master's process.
func (b *ballot) look() {
	switch b.knows {
	case stranger:
		b.knows = met
	case metOther:
		b.knows = metLater
	}
}

// believes reports whether a master that granted the lock cannot have forgotten an earlier grant,
// or is taken for a new one.
func (m *voting) believes(s *state, v *voter, c int) bool {
	if v.age >= m.lease || m.off.Has(restarts) {
		return true
	}
	if !m.weak || v.ballots[c].knows != met {
		return false
	}
	for i := range m.voters {
		if o := &s.voters[i]; o.ballots[c].knows != stranger && o.age > v.age {
			return m.off.Has(together)
		}
	}
	return true
}

// judge takes back what was believed of a master because none was known that is older. Of masters
// that the client has known for longer than this election it has been settled.
func (m *voting) judge(s *state, c int) {
	if cl := &s.candidates[c]; cl.mode != electing {
		return
	}
	for i := range m.voters {
		if v := &s.voters[i]; v.ballots[c].marks.has(yes|counts) && !m.believes(s, v, c) {
			v.ballots[c].marks &^= counts
		}
	}
}

// young reports whether there are votes that count only because all masters are young.
func (m *voting) young(s *state, c int) bool {
	for i := range m.voters {
		v := &s.voters[i]
		if b := &v.ballots[c]; b.marks.has(yes|counts) && v.age < m.lease {
			return true
		}
	}
	return false
}

// contested reports whether another owner would have a majority with the vote of one more master,
// which may have forgotten it. (In the library it has not if it knows the very token of that owner.
// The model makes no such exception.)
func (m *voting) contested(s *state, c int) bool {
	most, answered := 0, m.count(s, c, yes)+m.count(s, c, no)
	for i := range m.voters {
		n := 0
		for j := range m.voters {
			if h := s.voters[i].ballots[c].holds; h != 0 && s.voters[j].ballots[c].holds == h {
				n++
			}
		}
		most = max(most, n)
	}
	return (most > 0 || !m.off.Has(silence)) && most+1+m.voters-answered >= m.need()
}
