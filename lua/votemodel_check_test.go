package lua_test

import "errors"

func (m *voting) check(s voteState) error {
	for _, c := range []func(*voteState) error{m.checkSteps, m.checkTwo, m.checkLeft} {
		if err := c(&s); err != nil && (m.only == nil || errors.Is(err, m.only)) {
			return err
		}
	}
	return nil
}

func (m *voting) checkSteps(s *voteState) error {
	for _, c := range []struct {
		wrong wrong
		err   error
	}{{oldToken, errToken}, {broughtBack, errBack}, {anothers, errAnothers}} {
		if s.wrong&c.wrong != 0 && (m.only == nil || errors.Is(c.err, m.only)) {
			return c.err
		}
	}
	return nil
}

func (m *voting) checkTwo(s *voteState) error {
	if s.candidates[0].mode == holding && s.candidates[1].mode == holding {
		return errTwo
	}
	return nil
}

// checkLeft: whoever a master has granted the lock to stands for election, holds it, or has it given back by something that is under
// way. It is for a network whose messages live for less than the pause in an undo, and for processes that do not die.
func (m *voting) checkLeft(s *voteState) error {
	if !m.brief || m.crashes > 0 {
		return nil
	}
	for i := range m.voters {
		if v := &s.voters[i]; v.owner != 0 && !v.cared(s) {
			return errLeft
		}
	}
	return nil
}

// cared tells whether anybody cares for what the master has granted.
func (v *voter) cared(s *voteState) bool {
	c := ballotOf(v.owner)
	if cl := &s.candidates[c]; cl.mode != idle && ballotID(c, cl.gen) == v.owner && (cl.mode != leaving || v.ballots[c].op != none) {
		return true
	}
	for _, l := range v.net {
		if l.id == v.owner && (l.kind == undoer || l.kind == acquire) {
			return true
		}
	}
	return false
}

// free is that nobody has the lock or wants it, and nothing is under way.
func (m *voting) free(s voteState) bool {
	for i := range m.voters {
		if v := &s.voters[i]; v.owner != 0 || v.net[0].kind != none {
			return false
		}
	}
	return s.candidates[0].mode == idle && s.candidates[1].mode == idle
}

// taken is that somebody has it.
func (m *voting) taken(s voteState) bool {
	return s.candidates[0].mode == holding || s.candidates[1].mode == holding
}

const (
	vStands = iota
	vUnlocks
	vRenews
	vMaster
	vAnswer
	vHearsNot
	vOvertakes
	vWaited
	vDies
	vUndoes
	vDropped
	vStraggler
	vCount
)

const voteRestarts = "a master is started anew and has lost its data"

// voteLabels are by client and step; voteLoud are those that are not quiet. Whoever wants the lock may have to ask again, so that is
// quiet where the lock is to be had.
var voteLabels, voteLoud = func() (all [candidates][vCount]string, loud map[string]bool) {
	loud = map[string]bool{voteRestarts: true}
	for c := range all {
		for l, text := range [vCount]string{
			"asks all masters for the lock", "unlocks", "renews", "a master executes its request", "gets an answer",
			"hears that there will be no answer", "releases before a vote was answered", "has waited long enough", "dies", "an undo releases",
			"a late message is lost", "a late message arrives",
		} {
			all[c][l] = string(rune('A'+c)) + ": " + text
			switch l {
			case vRenews, vHearsNot, vOvertakes, vWaited, vDies:
				loud[all[c][l]] = true
			}
		}
	}
	return all, loud
}()

var voteStands = map[string]bool{voteLabels[0][vStands]: true, voteLabels[1][vStands]: true}
