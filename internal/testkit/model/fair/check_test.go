package fair

import "github.com/holdfast-go/holdfast/internal/testkit/model/line"

// What must never be, beside what no line does.
var (
	errTwo     = line.Must.Never("two clients trust their holds")
	errHolders = line.Must.Never("the holder's token is not that of its grant")
)

// judge notes what a script did to whom: whatever clients believe, these things must not happen.
func (m *fair) judge(before *keys, r line.Request) {
	s, asked := &m.To, r.Asks() && m.To.owner == r.ID
	switch {
	case s.owner != 0 && (before.owner != s.owner || before.Token != s.Token): // granted
		m.JudgeToken(s.Token)
		s.claimed = !asked
		c := m.Of(s.owner)
		s.Wrong.If(s.claimed && !s.Up.Has(c) && s.owner != r.ID && !m.Present(r, c), line.ErrDeaf)
		m.JudgeOrder(&before.Queue, s.owner)
	case s.owner == 0 || asked || r.Kind == line.Renewal && s.owner == r.ID:
		s.claimed = false
	}
	s.Wrong.If(before.owner != 0 && !r.Own(before.owner) && s.owner != before.owner, line.ErrAnothers)
	if r.Kind == line.Renewal {
		return
	}
	m.JudgePlaces(&before.Queue, func(owner uint8) bool {
		return owner == s.owner || owner == r.ID && r.Frees() || r.Served.Has(owner) && !s.Waits(owner)
	})
	for _, p := range s.Queue {
		s.Wrong.If(s.owner == 0 && p.Left > 0 && s.Up.Has(m.Of(p.Owner)), line.ErrIdle)
	}
}

// judgeRun: nobody who waits stands before the one to whom a hold's run hands the lock on.
func (m *fair) judgeRun(from *line.Waiter, next uint8) {
	s := &m.To
	if s.Queue.At(next) < 0 {
		return // its place has been lost since the run began
	}
	for _, p := range s.Queue {
		if p.Owner == next {
			return
		}
		s.Wrong.If(s.Waits(p.Owner) && p.Left > 0 && s.Up.Has(m.Of(p.Owner)) && !from.Served.Has(p.Owner), line.ErrPassed)
	}
}

// Check says what is wrong with a state. Where the server's data may be lost there is a promise about
// tokens and waiting alone.
func (m *fair) Check(s *state) error {
	b, holders := s.Wrong, 0
	for w := range m.Waiters {
		wr := &s.Waiters[w]
		if wr.Mode != line.Has || wr.Trust == 0 || m.Losses > 0 {
			continue
		}
		holders++
		b.If(holders > 1, errTwo)
		b.If(s.owner != s.Entry(w), line.ErrCut)
		b.If(s.owner == s.Entry(w) && s.Token != wr.Token && (wr.Field == 0 || wr.Token+wr.Run.Size() > s.Token), errHolders)
	}
	b.If(s.claimed && s.ttl > m.Claim, line.ErrClaim)
	b.If(s.owner != 0 && (s.ttl == 0 || s.ttl > m.Lease), line.ErrEndless)
	b.If(s.owner != 0 && !m.CaredFor(&s.State, s.owner), line.ErrLeft)
	m.CheckQueue(&b, &s.State, &s.Queue, func(owner uint8) bool { return owner == s.owner })
	return line.Must.First(b, m.Only)
}

// AtRest is the goal.
func (m *fair) AtRest(s *state) bool {
	return s.owner == 0 && s.Queue[0].Owner == 0 && s.State.AtRest()
}
