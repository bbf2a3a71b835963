package permits

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
)

// What must never be, beside what no line does.
var (
	errTooMany  = line.Must.Never("more permits are trusted than there are")
	errSome     = line.Must.Never("an owner has some of what it wants, and not all")
	errClaims   = line.Must.Never("a client that nobody hears of cost more than one claim for each permit")
	errWasted   = line.Must.Never("a client that asks was not told what it was handed before the claim ended")
	errLost     = line.Must.Never("a permit is lost")
	errInvented = line.Must.Never("a permit appeared from nowhere")
	errGranted  = line.Must.Never("permits were granted that were not free")
)

// judge notes what a script did to whom: whatever clients believe, these things must not happen.
func (m *exploration) judge(before *keys, r line.Request, a *answer) {
	s := &m.To
	if r.ID != 0 {
		s.claims[m.Of(r.ID)] = 0
	}
	for _, g := range a.grants[:a.granted] {
		m.JudgeToken(g.token)
		if !g.asked {
			m.judgeClaim(r, g.owner)
		}
		if !before.has(g.owner) { // who is told again what it has passes nobody
			m.JudgeOrder(&before.Queue, g.owner)
		}
	}
	s.Wrong.If(a.granted > 0 && s.free < 0 && !(a.granted == 1 && before.has(a.grants[0].owner)), errGranted)
	m.judgeOthers(before, r)
	if r.Kind != line.Renewal {
		m.judgePlaces(before, r, a)
		m.judgeFree(before, r, a)
	}
	m.settle()
}

// settle counts permits: what is free and what is out are all, and those that are too many come back
// first.
func (m *exploration) settle() {
	s := &m.To
	s.Wrong.If(s.counted && s.all() < s.total, errLost)
	s.Wrong.If(s.counted && s.all() > s.total, errInvented)
	live := int8(0)
	for _, p := range s.out {
		if p.left > 0 {
			live += p.n
		}
	}
	s.allowed = max(s.total, min(s.allowed, live))
}

// judgeClaim judges permits that were handed to an owner.
func (m *exploration) judgeClaim(r line.Request, owner uint8) {
	s, c := &m.To, m.Of(owner)
	s.claims[c] += m.at.wants(owner)
	s.Wrong.If(s.claims[c] > max(s.total, s.allowed), errClaims)
	s.Wrong.If(!s.Up.Has(c) && !m.Present(r, c), line.ErrDeaf)
	s.Wrong.If(s.of(owner).left > m.Claim, line.ErrClaim)
}

// judgeOthers: what other owners have is as it was.
func (m *exploration) judgeOthers(before *keys, r line.Request) {
	for _, p := range before.out {
		if p.n > 0 && p.left > 0 && !r.Own(p.owner) {
			now := m.To.of(p.owner)
			m.To.Wrong.If(now == nil || now.n != p.n || now.left != p.left, line.ErrAnothers)
		}
	}
}

// judgeFree: the first who waits and can be told has not enough. Who is told again what it has hands
// out nothing.
func (m *exploration) judgeFree(before *keys, r line.Request, a *answer) {
	s := &m.To
	if a.status == line.Excess || r.Asks() && before.has(r.ID) {
		return
	}
	for _, p := range model.Under(s.Queue[:]) {
		c, n := m.Of(p.Owner), m.at.wants(p.Owner)
		if p.Left > 0 && n <= s.all() && (s.Up.Has(c) && !p.Stale || m.Present(r, c)) {
			s.Wrong.If(n <= s.free, line.ErrIdle)
			return
		}
	}
}

// judgePlaces: those lose their places that leave, that want too many, or that are granted theirs, for
// the first time or again.
func (m *exploration) judgePlaces(before *keys, r line.Request, a *answer) {
	s := &m.To
	m.JudgePlaces(&before.Queue, func(owner uint8) bool {
		return owner == r.ID && (r.Frees() || a.status == line.Excess) || m.at.wants(owner) > s.all() ||
			a.grantTo(owner) >= 0 || s.has(owner) && s.Queue.At(owner) < 0
	})
}

// Check says what is wrong with a state. Where the server's data may be lost there is a promise about
// tokens and waiting alone.
func (m *exploration) Check(s *state) error {
	b, trusted := s.Wrong, int8(0)
	for w := range m.Waiters {
		wr := &s.Waiters[w]
		if wr.Mode != line.Has || wr.Trust == 0 || m.Losses > 0 {
			continue
		}
		owner := line.OwnerID(w, wr.Gen)
		trusted += m.at.wants(owner)
		b.If(!s.has(owner) || s.of(owner).n < m.at.wants(owner), line.ErrCut)
	}
	b.If(trusted > s.allowed, errTooMany)
	for _, p := range s.out {
		if p.n > 0 && p.owner != foreigner {
			b.If(p.left > m.Lease, line.ErrEndless)
			b.If(p.n != m.at.wants(p.owner) && !p.torn, errSome)
			b.If(p.left > 0 && !m.CaredFor(&s.State, p.owner), line.ErrLeft)
		}
	}
	m.CheckQueue(&b, &s.State, &s.Queue, s.has)
	return line.Must.First(b, m.Only)
}

// AtRest is the goal. All permits are free then, or become so when somebody asks.
func (m *exploration) AtRest(s *state) bool {
	for _, p := range s.out {
		if p.left > 0 {
			return false
		}
	}
	return s.Queue[0].Owner == 0 && s.State.AtRest()
}
