package permits

import (
	"errors"
	"fmt"
)

// wrong is a set of things that a step did and must not.
type wrong uint16

const (
	oldToken   wrong = 1 << iota // a grant's token is not greater than all before
	anothers                     // a command changed what another owner has
	byItself                     // a waiter was refused because it has permits, and does not know
	passed                       // a grant went past a waiter that could have been told
	lostPlace                    // a place that counted is gone, or has got behind another
	toDeaf                       // permits were handed to somebody who cannot hear of it
	stayedFree                   // permits stayed free although a waiter could have been told
	tooOften                     // a client that is not heard of was handed more than one claim for each permit
	wasted                       // a claim ended although its owner's client asked what there is
	lost                         // there are fewer permits than there should be
	invented                     // there are more
	tooMany                      // permits were granted that were not free
	tooLong                      // a claim lasts longer than a claim
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
	w, _ := waiterOf(owner)
	return m.want[w]
}

// judge notes what a script did to whom: whatever clients believe, these things must not happen.
func (m *semaphore) judge(s *state, before *keys, r message, a *answer) {
	if r.id != 0 {
		s.claims[m.of(r.id)] = 0
	}
	for _, g := range a.grants[:a.granted] {
		if g.token <= s.top {
			s.wrong |= oldToken
		}
		s.top = max(s.top, g.token)
		m.judgeGrant(s, before, r, g)
	}
	if a.granted > 0 && s.free < 0 && !(a.granted == 1 && before.has(a.grants[0].owner)) {
		s.wrong |= tooMany
	}
	m.judgeOthers(s, before, r)
	if r.kind != renewal {
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
		s.wrong |= lost
	case all > int8(s.total): //nolint:gosec // a few
		s.wrong |= invented
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
func (m *semaphore) judgeGrant(s *state, before *keys, r message, g grant) {
	if c := m.of(g.owner); !g.asked {
		if s.claims[c] += m.wants(g.owner); s.claims[c] > max(s.total, s.allowed) {
			s.wrong |= tooOften
		}
		if !s.up.has(c) && !m.present(r, c) {
			s.wrong |= toDeaf
		}
		if s.of(g.owner).left > m.claim {
			s.wrong |= tooLong
		}
	}
	for _, p := range before.queue {
		if p.owner == 0 || p.owner == g.owner || before.has(g.owner) { // who is told again what it has passes nobody
			break
		}
		now := s.at(p.owner)
		if p.left > 0 && now >= 0 && s.up.has(m.of(p.owner)) && !s.queue[now].stale {
			s.wrong |= passed
		}
	}
}

// present reports whether a client is known to be there because it asks for places, or polls.
func (m *semaphore) present(r message, c uint8) bool {
	return r.id != 0 && (r.place || r.kind == polls || r.kind == joins) && m.of(r.id) == c
}

// judgeOthers: what other owners have is as it was.
func (m *semaphore) judgeOthers(s *state, before *keys, r message) {
	for _, p := range before.out {
		if p.n == 0 || p.left == 0 || p.owner == r.id && r.kind <= undoer {
			continue
		}
		if now := s.of(p.owner); now == nil || now.n != p.n || now.left != p.left {
			s.wrong |= anothers
		}
	}
}

// judgeFree: the first who waits and can be told has not enough. Who is told again what it has hands
// out nothing.
func (m *semaphore) judgeFree(s *state, before *keys, r message, a *answer) {
	if a.status == excess || (r.kind == acquire || r.kind == late) && before.has(r.id) {
		return
	}
	for _, p := range s.queue {
		if p.owner == 0 {
			return
		}
		c, much := m.of(p.owner), int8(m.wants(p.owner)) > s.all() //nolint:gosec // a few
		if p.left > 0 && !much && (s.up.has(c) && !p.stale || m.present(r, c)) {
			if int8(m.wants(p.owner)) <= s.free { //nolint:gosec // a few
				s.wrong |= stayedFree
			}
			return
		}
	}
}

// judgePlaces: all others stand as they stood.
func (m *semaphore) judgePlaces(s *state, before *keys, r message, a *answer) {
	at := 0
	for _, p := range before.queue {
		if p.owner == 0 {
			break
		}
		leaves := p.owner == r.id && (r.kind == release || r.kind == undoer || a.status == excess)
		tooMany := int8(m.wants(p.owner)) > s.all() //nolint:gosec // a few
		if p.left == 0 || leaves || tooMany || a.grantTo(p.owner) >= 0 {
			continue
		}
		if s.has(p.owner) && s.at(p.owner) < 0 {
			continue // it was told again what it has
		}
		now := s.at(p.owner)
		if now < at {
			s.wrong |= lostPlace
			return
		}
		at = now
	}
}

// check is what is wrong with a state. A control that looks for one thing only is not stopped by
// another.
func (m *semaphore) check(s state) error {
	for i, err := range wrongs {
		if s.wrong&(1<<i) != 0 && (m.only == nil || errors.Is(err, m.only)) {
			return err
		}
	}
	for _, c := range []func(*state) error{m.checkTrust, m.checkOut, m.checkHolds, m.checkQueue, m.checkLeft} {
		if err := c(&s); err != nil && (m.only == nil || errors.Is(err, m.only)) {
			return err
		}
	}
	return nil
}

// checkTrust: where the server's data may be lost there is a promise about tokens and waiting
// alone.
func (m *semaphore) checkTrust(s *state) error {
	trusted := uint8(0)
	for w := range m.waiters {
		if s.waiters[w].mode == has && s.waiters[w].trust > 0 {
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
		wr := &s.waiters[w]
		if wr.mode != has || wr.trust == 0 || m.losses > 0 {
			continue
		}
		if p := s.of(ownerID(w, wr.gen)); p == nil || p.torn || p.left == 0 || p.n < m.want[w] {
			return errCut
		}
	}
	return nil
}

func (m *semaphore) checkQueue(s *state) error {
	seen := uint16(0)
	for _, p := range s.queue {
		switch {
		case p.owner == 0:
			return nil
		case seen&(1<<p.owner) != 0:
			return errTwice
		case s.has(p.owner):
			return errBoth
		}
		seen |= 1 << p.owner
	}
	return nil
}

// checkLeft: for whom there is no process any more, a lease and a deadline are the ends. All others
// are taken care of.
func (m *semaphore) checkLeft(s *state) error {
	for _, p := range s.out {
		if p.n > 0 && p.left > 0 && p.owner != foreigner && !m.cared(s, p.owner) {
			return errLeft
		}
	}
	for _, p := range s.queue {
		if p.owner != 0 && !m.cared(s, p.owner) {
			return errPlaceLeft
		}
	}
	return nil
}

func (m *semaphore) cared(s *state, owner uint8) bool {
	if s.crashed&(1<<owner) != 0 {
		return true
	}
	if owner == foreigner {
		return false
	}
	w, gen := waiterOf(owner)
	if wr := &s.waiters[w]; wr.gen == gen && wr.mode != away {
		return true
	}
	for _, r := range s.net {
		if r.id == owner {
			return true
		}
	}
	return false
}

// calm is the goal: nobody has permits, waits or does anything, and so everybody who waited was
// served, and all permits are free, or become so when somebody asks.
func (m *semaphore) calm(s state) bool {
	for _, p := range s.out {
		if p.left > 0 {
			return false
		}
	}
	if s.queue[0].owner != 0 || s.net[0] != (message{}) || s.mail[0] != (mail{}) {
		return false
	}
	for w := range m.waiters {
		if s.waiters[w].mode != away {
			return false
		}
	}
	return true
}
