package quorum

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

// What a holder makes of masters that forgot it: the rule of ballot_gap.go. Times are ticks from now on, less than 0 if they
// are past. Where two events are in one tick, what ends there ends after what begins.

// gapAt is what a holder knows of one master. It is kept where there is a watchdog.
type gapAt struct {
	told  uint8 // the greatest token that the master has told the owner
	since int8  // the request that is under way was sent
	seen  int8  // while held: the last question was sent that it answered with "held"
	open  int8  // while opened: from then on it may not have held the lock
	from  int8  // the last gap that has ended
	until int8  // the same; both are 0 if there is none
	again int8  // while more than 0: from then on its vote counts again
}

func (g *gapAt) gapped() bool { return g.from != 0 || g.until != 0 }

// heardAll is a second renewal after a visit. The majority that answers first confirms the first renewal, and others count as
// before. Time stands still in these scenarios until all have answered, so the second knows what they said.
const heardAll = 3

// watched reports whether a client has a watchdog.
func (m *voting) watched(c int) bool { return m.renews && (c == 0 || !m.visits) }

func (m *voting) gaps(c int) bool { return m.forgets > 0 && m.watched(c) && !m.off.Has(gapsKept) }

// track notes what an answer says of gaps, before anything else of it is noted.
func (m *voting) track(s *state, v *voter, c int, op, at uint8) {
	b := &v.ballots[c]
	fresh := op == acquire && at == server.Done && !b.marks.has(regrant)
	if b.marks.has(held) && !b.marks.has(opened) && (fresh || at != server.Done) {
		b.open = b.seen
		b.marks |= opened
	}
	if at != server.Done {
		b.seen = 0
		return
	}
	if b.marks.has(opened) {
		m.close(s, v, c, fresh)
	}
	if !b.marks.has(held) || b.since > b.seen {
		b.seen = b.since
	}
	if op == acquire {
		b.told = max(b.told, b.token)
		b.marks |= granted
		b.marks &^= renewed
	}
}

// close ends a gap.
func (m *voting) close(s *state, v *voter, c int, fresh bool) {
	b := &v.ballots[c]
	from, until, before := b.open, int8(1), s.candidates[c].before
	b.open = 0
	b.marks &^= opened
	switch first := !b.marks.has(granted); {
	case m.off.Has(tokenSpares):
	case first && fresh && b.last == 0 && !b.marks.has(early) && !m.off.Has(firstLater): // all keys may have been lost
	case first && fresh && (b.last <= before || m.off.Has(firstKnown)):
		return
	case !first && fresh && b.last != 0 && (b.last == b.told || b.last > b.told && m.off.Has(exactToken)):
		return
	case !first && fresh && b.marks.has(renewed) && v.age < m.lease && -from < int8(m.lease) && //nolint:gosec // few
		!m.off.Has(anewSpares):
		return
	}
	switch {
	case b.marks.has(granted) && !m.off.Has(gapLonger):
		until = int8(m.lease) //nolint:gosec // few
	case !b.marks.has(granted) && !m.off.Has(gapElects):
		until += int8(m.patience) //nolint:gosec // few
	}
	if b.marks.has(granted) {
		b.again = until
	}
	if b.gapped() && b.until > from {
		from = b.from
	}
	b.from, b.until = from, until
}

// begin: the masters that have not granted the lock when it is won may grant it to others.
func (m *voting) begin(s *state, c int) {
	for i := range m.voters {
		if b := &s.voters[i].ballots[c]; b.marks&(held|opened) == 0 {
			b.open = 0
			b.marks |= opened
			if b.op == acquire {
				b.marks |= early
			}
		}
	}
}

// overtaken reports whether a majority may have granted the lock to another at one moment. Gaps that go on at those of whom
// more will be known are left out, if told so: others hold it there, or there is no answer yet.
func (m *voting) overtaken(s *state, c int, leaveOut, final bool) bool {
	if !m.gaps(c) {
		return false
	}
	covers := func(b *ballot, at int8) bool {
		more := leaveOut && (b.marks.has(no) || !b.marks.has(yes) && !final)
		return b.from <= at && at < b.until || b.marks.has(opened) && b.open <= at && !more
	}
	for i := range m.voters {
		b := &s.voters[i].ballots[c]
		for k, at := range [2]int8{b.from, b.open} {
			if k == 0 && !b.gapped() || k == 1 && !b.marks.has(opened) {
				continue
			}
			n := 0
			for j := range m.voters {
				if covers(&s.voters[j].ballots[c], at) {
					n++
				}
			}
			if n >= m.voters/2+1 {
				return true
			}
		}
	}
	return false
}

// owned is at how many masters one other owner holds the lock, the one who has most.
func (m *voting) owned(s *state, c int) int {
	return m.most(s, c, func(a, b *ballot) bool { return a.marks.has(no) && b.marks.has(no) && a.holds == b.holds })
}

// most is how many masters are alike for a client, of those who are most.
func (m *voting) most(s *state, c int, alike func(a, b *ballot) bool) (most int) {
	for i := range m.voters {
		n := 0
		for j := range m.voters {
			if alike(&s.voters[i].ballots[c], &s.voters[j].ballots[c]) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// settled: a visit can do no more harm: A ended its only hold, or B its only election without a win, or it takes too long.
func (m *voting) settled(s *state) bool {
	ended := func(c int) bool {
		cl := &s.candidates[c]
		waits := cl.mode == electing || cl.mode == telling
		return s.stood[c] > 0 && s.stood[c] == m.wishes[c] &&
			(cl.mode == idle || cl.mode == leaving || waits && m.trusted(cl) == 0)
	}
	return m.visits && (ended(0) || ended(1) && s.candidates[0].visited == 0)
}

// busy reports whether requests are under way that no time passes for.
func (m *voting) busy(s *state) bool {
	return slices.ContainsFunc(s.voters[:m.voters], func(v voter) bool {
		return v.ballots[0].op != server.None || v.ballots[1].op != server.None && !m.dawdles
	})
}

// gapTick makes all moments older by a tick, and forgets gaps that are over and were before all that may still be a gap.
func (m *voting) gapTick(s *state, c int) {
	if mode := s.candidates[c].mode; !m.gaps(c) || mode == idle || mode == leaving {
		return
	}
	past := int8(-2 * int(m.lease)) //nolint:gosec // few
	older := func(at *int8, is bool) {
		if is {
			*at = max(*at-1, past)
		}
	}
	for i := range m.voters {
		b := &s.voters[i].ballots[c]
		older(&b.since, b.op != server.None)
		older(&b.seen, b.marks.has(held))
		older(&b.open, b.marks.has(opened))
		ended := b.gapped()
		older(&b.from, ended)
		older(&b.until, ended)
		b.again = max(b.again-1, 0)
	}
	for i := range m.voters {
		b := &s.voters[i].ballots[c]
		needed := b.until > 0
		for j := range m.voters {
			o := &s.voters[j].ballots[c]
			needed = needed || i != j && (o.marks.has(held) && o.seen < b.until || o.marks.has(opened) &&
				o.open < b.until ||
				o.gapped() && o.from < b.until)
		}
		if !needed {
			b.from, b.until = 0, 0
		}
	}
}

// forgetsKeys are keys that go while a master's process stays and A has the lock: the hash is deleted or, the same, expires as
// the clock is set forward; or all go, unprotected while A's first vote is under way: see TestVoteModelNotProtected.
func (m *voting) forgetsKeys(s state, i int, out *steps) {
	if s.candidates[0].mode != holding || !model.Spend(&s.forgets) {
		return
	}
	v := &s.voters[i]
	had := v.Owner != 0
	if v.Release(0, v.Owner); had {
		out.Loud(0, "the lock's hash is deleted at a master, or expires too early", s)
	}
	if v.Token != 0 && (m.flushAny || m.flush && !v.ballots[0].marks.has(early)) {
		v.Token = 0
		out.Loud(0, "all keys are deleted at a master", s)
	}
}

// What a client makes of masters younger than a lease. By the strict rule they do not count. By the library's, masters that
// were started together may vote, so that nobody waits for a lease: see master.Run.Doubt, and young and contested.

// look is what a client knows once it has asked for the master's process.
func (b *ballot) look() {
	switch b.knows {
	case stranger:
		b.knows = met
	case metOther:
		b.knows = metLater
	}
}

// believes reports whether a master that granted the lock cannot have forgotten an earlier grant, or is taken for a new one.
func (m *voting) believes(s *state, v *voter, c int) bool {
	if v.age >= m.lease || m.off.Has(restarts) {
		return true
	}
	if !m.weak || v.ballots[c].knows != met {
		return false
	}
	older := func(o voter) bool { return o.ballots[c].knows != stranger && o.age > v.age }
	return m.off.Has(together) || !slices.ContainsFunc(s.voters[:m.voters], older)
}

// judge takes back a belief in a master held for want of an older one. For masters known before this election it is settled.
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
	return slices.ContainsFunc(s.voters[:m.voters], func(v voter) bool {
		return v.ballots[c].marks.has(yes|counts) && v.age < m.lease
	})
}

// contested reports whether another owner would have a majority with the vote of one more master, which may have forgotten it.
// (In the library it has not if it knows the very token of that owner. The model makes no such exception.)
func (m *voting) contested(s *state, c int) bool {
	answered := m.count(s, c, yes) + m.count(s, c, no)
	most := m.most(s, c, func(a, b *ballot) bool { return a.holds != 0 && a.holds == b.holds })
	return (most > 0 || !m.off.Has(silence)) && most+1+m.voters-answered >= m.need()
}
