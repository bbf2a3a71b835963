package handoff

import (
	"errors"
	"fmt"
)

// wrong is a set of things that a step did and must not.
type wrong uint8

const (
	smallToken wrong = 1 << iota
	revived
	strangers
	falseLoss
	tooLate
	twice
)

// What must never be.
var (
	errTwo      = errors.New("two clients trust their holds")
	errCut      = errors.New("a client trusts a hold that the server does not know")
	errToken    = errors.New("a token that is not greater than all before it")
	errAnothers = errors.New("a command changed the lock of another owner")
	errBack     = errors.New("a lock that had ended was brought back")
	errLeft     = errors.New("the lock is held for nobody, and nothing is on its way that would free it")
	errFalse    = errors.New("a holder is told that its lock is lost, which it was not")
	errShort    = errors.New("the lock is handed on with less than half of the lease left")
)

func (m *hand) check(s state) error {
	for _, c := range []func(*state) error{m.checkSteps, m.checkHolders, m.checkLeft} {
		if err := c(&s); err != nil && (m.only == nil || errors.Is(err, m.only)) {
			return err
		}
	}
	return nil
}

func (m *hand) checkSteps(s *state) error {
	for _, c := range []struct {
		wrong wrong
		err   error
	}{{smallToken, errToken}, {revived, errBack}, {strangers, errAnothers}, {falseLoss, errFalse}, {tooLate, errShort},
		{twice, errTwo}} {
		if s.wrong&c.wrong != 0 && (m.only == nil || errors.Is(c.err, m.only)) {
			return c.err
		}
	}
	return nil
}

func (m *hand) checkHolders(s *state) error {
	if s.clients[0].mode == holding && s.clients[1].mode == holding && (m.only == nil || errors.Is(errTwo, m.only)) {
		return errTwo
	}
	for c := range s.clients {
		cl := &s.clients[c]
		if cl.mode == holding && cl.id != s.owner {
			return fmt.Errorf("%w: it has %d, not %d", errCut, s.owner, cl.id)
		}
	}
	return nil
}

// checkLeft: whoever the lock is held by uses it, or gives it back, or is dead.
func (m *hand) checkLeft(s *state) error {
	if s.owner == 0 || !m.brief || s.crashed&(1<<s.owner) != 0 {
		return nil
	}
	if cl := &s.clients[clientOf(s.owner)]; cl.id == s.owner || cl.try.owner == s.owner {
		return nil
	}
	for _, r := range s.net {
		if r.owner == s.owner {
			return nil
		}
	}
	return errLeft
}

// free is the goal.
func (m *hand) free(s state) bool {
	return s.owner == 0 && s.net[0] == (message{}) && s.clients[0].mode == idle && s.clients[1].mode == idle &&
		s.clients[0].try.at == none
}

const (
	hWants = iota
	hTries
	hAgain
	hWaited
	hReenters
	hUnlocks
	hPasses
	hHands
	hLeaver
	hRenews
	hServer
	hAnswer
	hRenewed
	hRenewLost
	hResends
	hGivesUp
	hDies
	hUndoes
	hDropped
	hStraggler
	hCount
)

const tickLabel = "time passes"

// labels are by client and step; loud are those that are not quiet.
var labels, loud = func() (all [maxClients][hCount]string, loud map[string]bool) {
	loud = map[string]bool{}
	for c := range all {
		for l, text := range [hCount]string{
			"an owner wants the lock", "an owner tries to get it beside the one in front", "tries again",
			"has waited long enough", "re-enters", "unlocks and releases", "unlocks and passes",
			"hands the lock on", "hands the lock on to one who leaves", "renews", "the server executes its command",
			"gets the answer",
			"gets the answer to a renewal", "hears nothing of its renewal", "hears nothing and sends again",
			"hears nothing and gives up",
			"dies", "an undo releases", "a late message is lost", "a late message arrives",
		} {
			all[c][l] = string(rune('A'+c)) + ": " + text
			switch l {
			case hWants, hTries, hAgain, hReenters, hRenews, hRenewLost, hResends, hGivesUp, hDies:
				loud[all[c][l]] = true
			}
		}
	}
	return all, loud
}()
