package plain

import (
	"errors"
	"fmt"
)

// wrong is a set of things that a step did and must not.
type wrong uint8

const (
	oldToken    wrong = 1 << iota // a grant's token is not greater than all before
	anothers                      // a command changed the lock of another owner
	broughtBack                   // a lock that had ended stood there again, and nobody asked for it
	byItself                      // a client was refused because it holds the lock itself, and does not know
)

// What must never be.
var (
	errTwo      = errors.New("two clients trust their holds")
	errCut      = errors.New("a client trusts a hold that the server does not know")
	errCount    = errors.New("the server's hold count is not the holder's")
	errEndless  = errors.New("a key has no time to live")
	errToken    = errors.New("a token that is not greater than all before it")
	errHolders  = errors.New("the holder's token is not that of its grant")
	errAnothers = errors.New("a command changed the lock of another owner")
	errBack     = errors.New("a lock that had ended was brought back")
	errItself   = errors.New("a client was refused because of its own earlier attempt")
	errLeft     = errors.New("the lock is held for nobody, and nothing is on its way that would free it")
)

// check is what is wrong with a state. A control that looks for one thing only is not stopped by
// another.
func (m *lock) check(s state) error {
	for _, c := range []func(*state) error{m.checkSteps, m.checkHolds, m.checkLeft} {
		if err := c(&s); err != nil && (m.only == nil || errors.Is(err, m.only)) {
			return err
		}
	}
	return nil
}

func (m *lock) checkSteps(s *state) error {
	switch {
	case s.wrong&oldToken != 0:
		return errToken
	case m.losses > 0: // of keys: then there is a promise about tokens alone
		return nil
	case s.wrong&anothers != 0:
		return errAnothers
	case s.wrong&broughtBack != 0:
		return errBack
	case s.wrong&byItself != 0:
		return errItself
	case s.owner != 0 && (s.ttl == 0 || s.ttl > m.long):
		return fmt.Errorf("%w: %d ticks", errEndless, s.ttl)
	}
	return nil
}

func (m *lock) checkHolds(s *state) error {
	if m.losses > 0 {
		return nil
	}
	holders := 0
	for c := range m.clients {
		if s.clients[c].mode == holding {
			holders++
		}
	}
	if holders > 1 && (m.only == nil || errors.Is(m.only, errTwo)) {
		return errTwo
	}
	for c := range m.clients {
		if err := m.checkHold(s, c); err != nil {
			return err
		}
	}
	return nil
}

func (m *lock) checkHold(s *state, c int) error {
	cl := &s.clients[c]
	switch {
	case cl.mode != holding:
		return nil
	case s.owner != id(c, cl.gen):
		return errCut
	case cl.op.at == none && !s.dirty && s.count != cl.holds:
		return fmt.Errorf("%w: %d, not %d", errCount, s.count, cl.holds)
	case s.token != cl.token:
		return errHolders
	}
	return nil
}

// checkLeft is for a network whose requests arrive however late; only what can do no harm here but
// take room is lost when it is late.
func (m *lock) checkLeft(s *state) error {
	if s.owner == 0 || !m.brief || s.crashed&(1<<s.owner) != 0 {
		return nil
	}
	c, gen := ownerOf(s.owner)
	if s.clients[c].gen == gen && s.clients[c].mode != idle {
		return nil
	}
	for _, r := range s.net {
		if r.id == s.owner {
			return nil
		}
	}
	return errLeft
}

// free is the goal: the lock is free, and nobody does anything.
func (m *lock) free(s state) bool {
	if s.owner != 0 || s.net[0] != (message{}) {
		return false
	}
	for c := range m.clients {
		if s.clients[c].mode != idle {
			return false
		}
	}
	return true
}

// Labels of steps.
const (
	lLock = iota
	lAgain
	lReenter
	lPartial
	lUnlock
	lExtend
	lRenew
	lServer
	lReply
	lServerRenews
	lRenewed
	lResend
	lGiveUp
	lRenewLost
	lWaited
	lCancel
	lCrash
	lUndo
	lLate
	lLateLost
	lDropped
	lStraggler
	lCount
)

const (
	tickLabel = "time passes"
	lostLabel = "the server loses its keys"
	backLabel = "the server's clock is set back"
)

var texts = [lCount]string{
	"wants the lock", "tries again", "wants to re-enter", "unlocks, but not the last", "unlocks the last",
	"wants a longer lease", "renews", "the server executes its command", "gets the answer", "the server renews",
	"gets the answer to its renewal", "hears nothing and sends again", "hears nothing and gives up",
	"hears nothing of its renewal", "has waited long enough", "its caller leaves", "dies", "an undo releases",
	"the answer to a caller who left", "no answer to a caller who left", "a late message is lost",
	"a late message arrives",
}

// labels are by client and step; loud are those that are not quiet: faults, and wishes that are not
// ends.
var labels, loud = func() (all [maxClients][lCount]string, loud map[string]bool) {
	loud = map[string]bool{lostLabel: true, backLabel: true}
	for c := range all {
		for l := range all[c] {
			all[c][l] = string(rune('A'+c)) + ": " + texts[l]
			switch l {
			case lLock, lAgain, lReenter, lExtend, lRenew, lResend, lGiveUp, lRenewLost, lCancel, lCrash, lLateLost:
				loud[all[c][l]] = true
			}
		}
	}
	return all, loud
}()
