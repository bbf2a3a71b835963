package permits

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
)

// What a step did and must not do.
const (
	oldToken   = 1 << iota // a grant's token is not greater than all before
	anothers               // a command changed what another owner has
	byItself               // a waiter was refused because it has permits, and does not know
	passed                 // a grant went past a waiter that could have been told
	lostPlace              // a place that counted is gone, or has got behind another
	toDeaf                 // permits were handed to somebody who cannot hear of it
	stayedFree             // permits stayed free although a waiter could have been told
	tooOften               // a client that is not heard of was handed more than one claim for each permit
	wasted                 // a claim ended although its owner's client asked what there is
	lost                   // there are fewer permits than there should be
	invented               // there are more
	tooMany                // permits were granted that were not free
	tooLong                // a claim lasts longer than a claim
)

// What must never be.
var (
	errTooMany   = errors.New("more permits are trusted than there are")
	errCut       = errors.New("a client trusts a hold that the server does not know")
	errSome      = errors.New("an owner has some of what it wants, and not all")
	errEndless   = errors.New("a permit has no end")
	errToken     = errors.New("a token that is not greater than all before it")
	errAnothers  = errors.New("a command changed what another owner has")
	errItself    = errors.New("a client was refused because of its own earlier attempt")
	errPassed    = errors.New("a grant went past a waiter that could have been told")
	errLostPlace = errors.New("a place that counts was lost, or fell behind another")
	errDeaf      = errors.New("permits were handed to somebody who cannot hear of it")
	errIdle      = errors.New("permits were left free although a waiter could have been told")
	errClaims    = errors.New("a client that nobody hears of cost more than one claim for each permit")
	errWasted    = errors.New("a client that asks was not told what it was handed before the claim ended")
	errLost      = errors.New("a permit is lost")
	errInvented  = errors.New("a permit appeared from nowhere")
	errGranted   = errors.New("permits were granted that were not free")
	errTwice     = errors.New("an owner has two places")
	errBoth      = errors.New("who has permits waits for them")
	errClaim     = errors.New("a claim lasts longer than a claim")
	errLeft      = errors.New("permits are out for nobody, and nothing is on its way that would free them")
	errPlaceLeft = errors.New("a place is kept for nobody, and nothing is on its way that would free it")
)

var wrongs = []error{
	errToken, errAnothers, errItself, errPassed, errLostPlace, errDeaf, errIdle, errClaims, errWasted, errLost, errInvented, errGranted,
	errClaim,
}

func (m *semaphore) wants(owner uint8) uint8 {
	w, _ := line.WaiterOf(owner)
	return m.want[w]
}

// judge notes what a script did to whom: whatever clients believe, these things must not happen.
func (m *semaphore) judge(s *state, before *keys, r line.Request, a *answer) {
	if r.ID != 0 {
		s.claims[m.Of(r.ID)] = 0
	}
	for _, g := range a.grants[:a.granted] {
		if g.token <= s.Top {
			s.Wrong |= oldToken
		}
		s.Top = max(s.Top, g.token)
		m.judgeGrant(s, before, r, g)
	}
	if a.granted > 0 && s.free < 0 && !(a.granted == 1 && before.has(a.grants[0].owner)) {
		s.Wrong |= tooMany
	}
	m.judgeOthers(s, before, r)
	if r.Kind != line.Renewal {
		m.judgePlaces(s, before, r, a)
		m.judgeFree(s, before, r, a)
	}
	m.settle(s)
}

// settle counts permits: what is free and what is out are all, and those that are too many come back
// first.
func (m *semaphore) settle(s *state) {
	switch all := s.all(); {
	case !s.counted:
	case all < int8(s.total): //nolint:gosec // a few
		s.Wrong |= lost
	case all > int8(s.total): //nolint:gosec // a few
		s.Wrong |= invented
	}
	live := uint8(0)
	for _, p := range s.out {
		if p.left > 0 {
			live += p.n
		}
	}
	s.allowed = max(s.total, min(s.allowed, live))
}

// judgeGrant: nobody in front of who was granted permits could have been told. Those who were have
// been granted theirs, or have left.
func (m *semaphore) judgeGrant(s *state, before *keys, r line.Request, g grant) {
	if c := m.Of(g.owner); !g.asked {
		if s.claims[c] += m.wants(g.owner); s.claims[c] > max(s.total, s.allowed) {
			s.Wrong |= tooOften
		}
		if !s.Up.Has(c) && !m.present(r, c) {
			s.Wrong |= toDeaf
		}
		if s.of(g.owner).left > m.claim {
			s.Wrong |= tooLong
		}
	}
	for _, p := range before.queue {
		if p.Owner == 0 || p.Owner == g.owner || before.has(g.owner) { // who is told again what it has passes nobody
			break
		}
		now := s.queue.At(p.Owner)
		if p.Left > 0 && now >= 0 && s.Up.Has(m.Of(p.Owner)) && !s.queue[now].Stale {
			s.Wrong |= passed
		}
	}
}

// present reports whether a client is known to be there because it asks for places, or polls.
func (m *semaphore) present(r line.Request, c uint8) bool {
	return r.ID != 0 && (r.Place || r.Kind == line.Polls || r.Kind == line.Joins) && m.Of(r.ID) == c
}

// judgeOthers: what other owners have is as it was.
func (m *semaphore) judgeOthers(s *state, before *keys, r line.Request) {
	for _, p := range before.out {
		if p.n == 0 || p.left == 0 || p.owner == r.ID && r.Kind <= line.Undoer {
			continue
		}
		if now := s.of(p.owner); now == nil || now.n != p.n || now.left != p.left {
			s.Wrong |= anothers
		}
	}
}

// judgeFree: the first who waits and can be told has not enough. Who is told again what it has hands
// out nothing.
func (m *semaphore) judgeFree(s *state, before *keys, r line.Request, a *answer) {
	if a.status == line.Excess || r.Asks() && before.has(r.ID) {
		return
	}
	for _, p := range s.queue {
		if p.Owner == 0 {
			return
		}
		c, much := m.Of(p.Owner), int8(m.wants(p.Owner)) > s.all() //nolint:gosec // a few
		if p.Left > 0 && !much && (s.Up.Has(c) && !p.Stale || m.present(r, c)) {
			if int8(m.wants(p.Owner)) <= s.free { //nolint:gosec // a few
				s.Wrong |= stayedFree
			}
			return
		}
	}
}

// judgePlaces: all others stand as they stood.
func (m *semaphore) judgePlaces(s *state, before *keys, r line.Request, a *answer) {
	at := 0
	for _, p := range before.queue {
		if p.Owner == 0 {
			break
		}
		leaves := p.Owner == r.ID && (r.Frees() || a.status == line.Excess)
		tooMany := int8(m.wants(p.Owner)) > s.all() //nolint:gosec // a few
		if p.Left == 0 || leaves || tooMany || a.grantTo(p.Owner) >= 0 {
			continue
		}
		if s.has(p.Owner) && s.queue.At(p.Owner) < 0 {
			continue // it was told again what it has
		}
		now := s.queue.At(p.Owner)
		if now < at {
			s.Wrong |= lostPlace
			return
		}
		at = now
	}
}

// check is what is wrong with a state.
func (m *semaphore) check(s state) error {
	return s.FirstWrong(m.only, wrongs, m.checkTrust(&s), m.checkOut(&s), m.checkHolds(&s), m.checkQueue(&s), m.checkLeft(&s))
}

// checkTrust: where the server's data may be lost there is a promise about tokens and waiting
// alone.
func (m *semaphore) checkTrust(s *state) error {
	trusted := uint8(0)
	for w := range m.waiters {
		if s.Waiters[w].Mode == line.Has && s.Waiters[w].Trust > 0 {
			trusted += m.want[w]
		}
	}
	if trusted > s.allowed && m.losses == 0 {
		return errTooMany
	}
	return nil
}

func (m *semaphore) checkOut(s *state) error {
	for _, p := range s.out {
		switch {
		case p.n == 0 || p.owner == foreigner:
		case p.left > m.lease:
			return fmt.Errorf("%w: %d ticks", errEndless, p.left)
		case p.n != m.wants(p.owner) && !p.torn:
			return errSome
		}
	}
	return nil
}

// checkHolds: who trusts a hold has all of it at the server.
func (m *semaphore) checkHolds(s *state) error {
	for w := range m.waiters {
		wr := &s.Waiters[w]
		if wr.Mode != line.Has || wr.Trust == 0 || m.losses > 0 {
			continue
		}
		if p := s.of(line.OwnerID(w, wr.Gen)); p == nil || p.torn || p.left == 0 || p.n < m.want[w] {
			return errCut
		}
	}
	return nil
}

func (m *semaphore) checkQueue(s *state) error {
	seen := uint32(0)
	for _, p := range s.queue {
		switch {
		case p.Owner == 0:
			return nil
		case seen&(1<<p.Owner) != 0:
			return errTwice
		case s.has(p.Owner):
			return errBoth
		}
		seen |= 1 << p.Owner
	}
	return nil
}

// checkLeft: for whom there is no process any more, a lease and a deadline are the ends. All others
// are taken care of.
func (m *semaphore) checkLeft(s *state) error {
	for _, p := range s.out {
		if p.n > 0 && p.left > 0 && p.owner != foreigner && !m.CaredFor(&s.State, p.owner) {
			return errLeft
		}
	}
	for _, p := range s.queue {
		if p.Owner != 0 && !m.CaredFor(&s.State, p.Owner) {
			return errPlaceLeft
		}
	}
	return nil
}

// calm is the goal: nobody has permits, waits or does anything, and so everybody who waited was
// served, and all permits are free, or become so when somebody asks.
func (m *semaphore) calm(s state) bool {
	for _, p := range s.out {
		if p.left > 0 {
			return false
		}
	}
	return s.queue[0].Owner == 0 && s.AtRest()
}
