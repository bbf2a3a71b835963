package lua_test

import (
	"errors"
	"fmt"
)

// handWrong is a set of things that a step did and must not.
type handWrong uint8

const (
	smallToken handWrong = 1 << iota
	revived
	strangers
	falseLoss
	tooLate
)

var (
	errFalse = errors.New("a holder is told that its lock is lost, which it was not")
	errShort = errors.New("the lock is handed on with less than half of the lease left")
)

func (m *hand) check(s handState) error {
	for _, c := range []func(*handState) error{m.checkSteps, m.checkHolders, m.checkLeft} {
		if err := c(&s); err != nil && (m.only == nil || errors.Is(err, m.only)) {
			return err
		}
	}
	return nil
}

func (m *hand) checkSteps(s *handState) error {
	for _, c := range []struct {
		wrong handWrong
		err   error
	}{{smallToken, errToken}, {revived, errBack}, {strangers, errAnothers}, {falseLoss, errFalse}, {tooLate, errShort}} {
		if s.wrong&c.wrong != 0 && (m.only == nil || errors.Is(c.err, m.only)) {
			return c.err
		}
	}
	return nil
}

func (m *hand) checkHolders(s *handState) error {
	if s.clients[0].mode == holding && s.clients[1].mode == holding && (m.only == nil || errors.Is(errTwo, m.only)) {
		return errTwo
	}
	for c := range s.clients {
		cl := &s.clients[c]
		if cl.mode == holding && !cl.names.has(s.owner) {
			return fmt.Errorf("%w: it has %d, not one of %v", errCut, s.owner, cl.names)
		}
	}
	return nil
}

// checkLeft: whoever the lock is held by uses it, or gives it back, or is dead.
func (m *hand) checkLeft(s *handState) error {
	if s.owner == 0 || !m.brief || s.crashed&(1<<s.owner) != 0 {
		return nil
	}
	cl := &s.clients[handClientOf(s.owner)]
	if cl.id == s.owner || cl.mode != idle && cl.names.has(s.owner) {
		return nil
	}
	for _, r := range s.net {
		if r.names.has(s.owner) || r.name == s.owner {
			return nil
		}
	}
	return errLeft
}

// free is the goal.
func (m *hand) free(s handState) bool {
	return s.owner == 0 && s.net[0] == (handMessage{}) && s.clients[0].mode == idle && s.clients[1].mode == idle
}

const (
	hWants = iota
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

// handLabels are by client and step; handLoud are those that are not quiet.
var handLabels, handLoud = func() (all [handClients][hCount]string, loud map[string]bool) {
	loud = map[string]bool{}
	for c := range all {
		for l, text := range [hCount]string{
			"an owner wants the lock", "tries again", "has waited long enough", "re-enters", "unlocks and releases", "unlocks and passes",
			"hands the lock on", "hands the lock on to one who leaves", "renews", "the server executes its command", "gets the answer",
			"gets the answer to a renewal", "hears nothing of its renewal", "hears nothing and sends again", "hears nothing and gives up",
			"dies", "an undo releases", "a late message is lost", "a late message arrives",
		} {
			all[c][l] = string(rune('A'+c)) + ": " + text
			switch l {
			case hWants, hAgain, hReenters, hRenews, hRenewLost, hResends, hGivesUp, hDies:
				loud[all[c][l]] = true
			}
		}
	}
	return all, loud
}()
