package fair

import (
	"errors"
	"fmt"
)

// wrong is a set of things that a step did and must not.
type wrong uint8

const (
	oldToken   wrong = 1 << iota // a grant's token is not greater than all before
	anothers                     // a command changed the lock of another owner
	byItself                     // a waiter was refused because it holds the lock itself, and does not know
	passed                       // a grant went past a waiter that could have been told
	lostPlace                    // a place that counted is gone, or has got behind another
	toDeaf                       // the lock was handed to somebody who cannot hear of it
	stayedFree                   // the lock stayed free although a waiter could have been told
)

// What must never be.
var (
	errTwo       = errors.New("two clients trust their holds")
	errCut       = errors.New("a client trusts a hold that the server does not know")
	errEndless   = errors.New("a key has no time to live")
	errToken     = errors.New("a token that is not greater than all before it")
	errHolders   = errors.New("the holder's token is not that of its grant")
	errAnothers  = errors.New("a command changed the lock of another owner")
	errItself    = errors.New("a client was refused because of its own earlier attempt")
	errLeft      = errors.New("the lock is held for nobody, and nothing is on its way that would free it")
	errPassed    = errors.New("a grant went past a waiter that could have been told")
	errLostPlace = errors.New("a place that counts was lost, or fell behind another")
	errDeaf      = errors.New("the lock was handed to somebody who cannot hear of it")
	errIdle      = errors.New("the lock was left free although a waiter could have been told")
	errTwice     = errors.New("an owner has two places")
	errBoth      = errors.New("who holds the lock waits for it")
	errClaim     = errors.New("a claim lasts longer than a claim")
	errPlaceLeft = errors.New("a place is kept for nobody, and nothing is on its way that would free it")
)

var wrongs = []error{errToken, errAnothers, errItself, errPassed, errLostPlace, errDeaf, errIdle}

// judge notes what a script did to whom: whatever clients believe, these things must not happen.
// polls is the client that polled, nobody if the script was another.
func (m *fair) judge(s *state, before *keys, r message, polls uint8) {
	asks := r.kind == acquire || r.kind == late
	granted := s.owner != 0 && (before.owner != s.owner || before.token != s.token)
	switch {
	case granted:
		if s.token <= s.top {
			s.wrong |= oldToken
		}
		s.top = s.token
		s.claimed = !asks || s.owner != r.id
		present := s.owner == r.id || m.of(s.owner) == polls || asks && r.place && m.of(r.id) == m.of(s.owner)
		if s.claimed && !s.up.has(m.of(s.owner)) && !present {
			s.wrong |= toDeaf
		}
		m.judgeOrder(s, before, r)
	case s.owner == 0 || asks && s.owner == r.id || r.kind == renewal && s.owner == r.id:
		s.claimed = false
	}
	if before.owner != 0 && before.owner != r.id && s.owner != before.owner {
		s.wrong |= anothers
	}
	if r.kind == renewal {
		return
	}
	m.judgePlaces(s, before, r)
	for _, p := range s.queue {
		if s.owner == 0 && p.owner != 0 && p.left > 0 && s.up.has(m.of(p.owner)) {
			s.wrong |= stayedFree
		}
	}
}

// judgeOrder: nobody in front of who was granted the lock could have been told.
func (m *fair) judgeOrder(s *state, before *keys, r message) {
	for _, p := range before.queue {
		switch {
		case p.owner == 0 || p.owner == s.owner:
			return
		case p.owner == r.id && (r.kind == release || r.kind == undoer), r.served.has(p.owner): // it leaves
		case p.left > 0 && s.up.has(m.of(p.owner)):
			s.wrong |= passed
		}
	}
}

// judgeRun: nobody who waits stands before the one to whom a hold's run hands the lock on.
func (m *fair) judgeRun(s *state, from *waiter, next uint8) {
	if s.at(next) < 0 {
		return // its place has been lost since the run began
	}
	for _, p := range s.queue {
		if p.owner == next {
			return
		}
		if m.waits(s, p.owner) && p.left > 0 && s.up.has(m.of(p.owner)) && !from.served.has(p.owner) {
			s.wrong |= passed
		}
	}
}

// waits reports whether a place is that of somebody who waits.
func (m *fair) waits(s *state, owner uint8) bool {
	w, gen := waiterOf(owner)
	return s.waiters[w].gen == gen && s.waiters[w].mode == waiting
}

// judgePlaces: all others stand as they stood.
func (m *fair) judgePlaces(s *state, before *keys, r message) {
	at := 0
	for _, p := range before.queue {
		if p.owner == 0 || p.left == 0 || p.owner == s.owner || p.owner == r.id && r.kind != acquire && r.kind != late ||
			r.served.has(p.owner) && !m.waits(s, p.owner) {
			continue
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
func (m *fair) check(s state) error {
	for i, err := range wrongs {
		if s.wrong&(1<<i) != 0 && (m.only == nil || errors.Is(err, m.only)) {
			return err
		}
	}
	for _, c := range []func(*state) error{m.checkTrust, m.checkHold, m.checkQueue, m.checkLeft} {
		if err := c(&s); err != nil && (m.only == nil || errors.Is(err, m.only)) {
			return err
		}
	}
	return nil
}

// checkTrust: where the server's data may be lost there is a promise about tokens and waiting
// alone.
func (m *fair) checkTrust(s *state) error {
	holders := 0
	for w := range m.waiters {
		if s.waiters[w].mode == has && s.waiters[w].trust > 0 {
			holders++
		}
	}
	if holders > 1 && m.losses == 0 {
		return errTwo
	}
	return nil
}

func (m *fair) checkHold(s *state) error {
	switch {
	case s.claimed && s.ttl > m.claim:
		return errClaim
	case s.owner != 0 && (s.ttl == 0 || s.ttl > m.lease):
		return fmt.Errorf("%w: %d ticks", errEndless, s.ttl)
	}
	for w := range m.waiters {
		wr := &s.waiters[w]
		if wr.mode != has || wr.trust == 0 || m.losses > 0 {
			continue
		}
		if s.owner != s.entry(w) {
			return errCut
		}
		if s.token != wr.token && (wr.field == 0 || wr.token+wr.run.size() > s.token) {
			return errHolders
		}
	}
	return nil
}

func (m *fair) checkQueue(s *state) error {
	seen := uint32(0)
	for _, p := range s.queue {
		switch {
		case p.owner == 0:
			return nil
		case seen&(1<<p.owner) != 0:
			return errTwice
		case p.owner == s.owner:
			return errBoth
		}
		seen |= 1 << p.owner
	}
	return nil
}

// checkLeft: for whom there is no process any more, a claim and a deadline are the ends. All others
// are taken care of.
func (m *fair) checkLeft(s *state) error {
	if s.owner != 0 && !m.cared(s, s.owner) {
		return errLeft
	}
	for _, p := range s.queue {
		if p.owner != 0 && !m.cared(s, p.owner) {
			return errPlaceLeft
		}
	}
	return nil
}

func (m *fair) cared(s *state, owner uint8) bool {
	if s.crashed&(1<<owner) != 0 {
		return true
	}
	w, gen := waiterOf(owner)
	if wr := &s.waiters[w]; wr.gen == gen && wr.mode != away {
		return true
	}
	for _, r := range s.net {
		if r.id == owner || r.served.has(owner) {
			return true
		}
	}
	for w := range m.waiters {
		if wr := &s.waiters[w]; wr.mode == has && (wr.field == owner || wr.served.has(owner)) {
			return true
		}
	}
	return false
}

// calm is the goal: nobody holds, waits or does anything, and so everybody who waited was served.
func (m *fair) calm(s state) bool {
	if s.owner != 0 || s.queue[0].owner != 0 || s.net[0] != (message{}) || s.mail[0] != (mail{}) {
		return false
	}
	for w := range m.waiters {
		if s.waiters[w].mode != away {
			return false
		}
	}
	return true
}
