package fair

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
)

// What a step did and must not do.

const (
	oldToken   = 1 << iota // a grant's token is not greater than all before
	anothers               // a command changed the lock of another owner
	byItself               // a waiter was refused because it holds the lock itself, and does not know
	passed                 // a grant went past a waiter that could have been told
	lostPlace              // a place that counted is gone, or has got behind another
	toDeaf                 // the lock was handed to somebody who cannot hear of it
	stayedFree             // the lock stayed free although a waiter could have been told
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
func (m *fair) judge(s *state, before *keys, r line.Request, polls uint8) {
	asks := r.Asks()
	granted := s.owner != 0 && (before.owner != s.owner || before.token != s.token)
	switch {
	case granted:
		if s.token <= s.Top {
			s.Wrong |= oldToken
		}
		s.Top = s.token
		s.claimed = !asks || s.owner != r.ID
		present := s.owner == r.ID || m.Of(s.owner) == polls || asks && r.Place && m.Of(r.ID) == m.Of(s.owner)
		if s.claimed && !s.Up.Has(m.Of(s.owner)) && !present {
			s.Wrong |= toDeaf
		}
		m.judgeOrder(s, before, r)
	case s.owner == 0 || asks && s.owner == r.ID || r.Kind == line.Renewal && s.owner == r.ID:
		s.claimed = false
	}
	if before.owner != 0 && before.owner != r.ID && s.owner != before.owner {
		s.Wrong |= anothers
	}
	if r.Kind == line.Renewal {
		return
	}
	m.judgePlaces(s, before, r)
	for _, p := range s.queue {
		if s.owner == 0 && p.Owner != 0 && p.Left > 0 && s.Up.Has(m.Of(p.Owner)) {
			s.Wrong |= stayedFree
		}
	}
}

// judgeOrder: nobody in front of who was granted the lock could have been told.
func (m *fair) judgeOrder(s *state, before *keys, r line.Request) {
	for _, p := range before.queue {
		switch {
		case p.Owner == 0 || p.Owner == s.owner:
			return
		case p.Owner == r.ID && r.Frees(), r.Served.Has(p.Owner): // it leaves
		case p.Left > 0 && s.Up.Has(m.Of(p.Owner)):
			s.Wrong |= passed
		}
	}
}

// judgeRun: nobody who waits stands before the one to whom a hold's run hands the lock on.
func (m *fair) judgeRun(s *state, from *line.Waiter, next uint8) {
	if s.queue.At(next) < 0 {
		return // its place has been lost since the run began
	}
	for _, p := range s.queue {
		if p.Owner == next {
			return
		}
		if s.Waits(p.Owner) && p.Left > 0 && s.Up.Has(m.Of(p.Owner)) && !from.Served.Has(p.Owner) {
			s.Wrong |= passed
		}
	}
}

// judgePlaces: all others stand as they stood.
func (m *fair) judgePlaces(s *state, before *keys, r line.Request) {
	at := 0
	for _, p := range before.queue {
		if p.Owner == 0 || p.Left == 0 || p.Owner == s.owner || p.Owner == r.ID && !r.Asks() ||
			r.Served.Has(p.Owner) && !s.Waits(p.Owner) {
			continue
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
func (m *fair) check(s state) error {
	return s.FirstWrong(m.only, wrongs, m.checkTrust(&s), m.checkHold(&s), m.checkQueue(&s), m.checkLeft(&s))
}

// checkTrust: where the server's data may be lost there is a promise about tokens and waiting
// alone.
func (m *fair) checkTrust(s *state) error {
	holders := 0
	for w := range m.waiters {
		if s.Waiters[w].Mode == line.Has && s.Waiters[w].Trust > 0 {
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
		wr := &s.Waiters[w]
		if wr.Mode != line.Has || wr.Trust == 0 || m.losses > 0 {
			continue
		}
		if s.owner != s.Entry(w) {
			return errCut
		}
		if s.token != wr.Token && (wr.Field == 0 || wr.Token+wr.Run.Size() > s.token) {
			return errHolders
		}
	}
	return nil
}

func (m *fair) checkQueue(s *state) error {
	seen := uint32(0)
	for _, p := range s.queue {
		switch {
		case p.Owner == 0:
			return nil
		case seen&(1<<p.Owner) != 0:
			return errTwice
		case p.Owner == s.owner:
			return errBoth
		}
		seen |= 1 << p.Owner
	}
	return nil
}

// checkLeft: for whom there is no process any more, a claim and a deadline are the ends. All others
// are taken care of.
func (m *fair) checkLeft(s *state) error {
	if s.owner != 0 && !m.CaredFor(&s.State, s.owner) {
		return errLeft
	}
	for _, p := range s.queue {
		if p.Owner != 0 && !m.CaredFor(&s.State, p.Owner) {
			return errPlaceLeft
		}
	}
	return nil
}

// calm is the goal: nobody holds, waits or does anything, and so everybody who waited was served.
func (m *fair) calm(s state) bool { return s.owner == 0 && s.queue[0].Owner == 0 && s.AtRest() }
