package quorum

import "errors"

// wrong is a set of things that a step did and must not.
type wrong uint8

const (
	oldToken    wrong = 1 << iota // a grant's token is not greater than all before
	anothers                      // a command changed the lock of another owner
	broughtBack                   // a lock that had ended stood there again, and nobody asked for it
	confirmed                     // a hold that was overtaken
	falselyLost                   // a hold that nobody else can have had meanwhile
)

// What must never be.
var (
	errTwo      = errors.New("two clients trust their holds")
	errToken    = errors.New("a token that is not greater than all before it")
	errAnothers = errors.New("a command changed the lock of another owner")
	errBack     = errors.New("a lock that had ended was brought back")
	errLeft     = errors.New("the lock is held for nobody, and nothing is on its way that would free it")
	errFalse    = errors.New("a holder is told that its lock is lost, which it was not")
	errVisited  = errors.New("a hold is renewed that another owner had meanwhile")
)

func (m *voting) check(s state) error {
	for _, c := range []func(*state) error{m.checkSteps, m.checkTwo, m.checkLeft} {
		if err := c(&s); err != nil && (m.only == nil || errors.Is(err, m.only)) {
			return err
		}
	}
	return nil
}

func (m *voting) checkSteps(s *state) error {
	for _, c := range []struct {
		wrong wrong
		err   error
	}{{oldToken, errToken}, {broughtBack, errBack}, {anothers, errAnothers}, {confirmed, errVisited},
		{falselyLost, errFalse}} {
		if s.wrong&c.wrong != 0 && (m.only == nil || errors.Is(c.err, m.only)) {
			return c.err
		}
	}
	return nil
}

// checkTwo is for masters that forget nothing unless they are started anew: where keys are deleted
// at a majority, two may hold the lock until the first one hears of it. What is promised then is
// that it does.
func (m *voting) checkTwo(s *state) error {
	if m.forgets == 0 && s.candidates[0].mode == holding && s.candidates[1].mode == holding {
		return errTwo
	}
	return nil
}

// checkLeft: whoever a master has granted the lock to stands for election, holds it, or has it
// given back by something that is under way. It is for a network whose other messages than votes
// live for less than the pause in an undo, and for processes that do not die.
func (m *voting) checkLeft(s *state) error {
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

// cared reports whether anybody cares for what the master has granted.
func (v *voter) cared(s *state) bool {
	c := candidateOf(v.owner)
	if cl := &s.candidates[c]; cl.mode != idle && ownerID(c, cl.gen) == v.owner &&
		(cl.mode != leaving || v.ballots[c].op != none) {
		return true
	}
	for _, l := range v.net {
		if l.id == v.owner && (l.kind == undoer || l.kind == acquire && l.step&agedVote == 0) {
			return true
		}
	}
	return false
}

// free is that nobody has the lock or wants it, and nothing is under way.
func (m *voting) free(s state) bool {
	for i := range m.voters {
		if v := &s.voters[i]; v.owner != 0 || v.net[0].kind != none {
			return false
		}
	}
	return s.candidates[0].mode == idle && s.candidates[1].mode == idle
}

// taken is that somebody has it.
func (m *voting) taken(s state) bool {
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

const (
	tickLabel    = "time passes"
	restartLabel = "a master is started anew and has lost its data"
	deletedLabel = "the lock's hash is deleted at a master, or expires too early"
	flushedLabel = "all keys are deleted at a master"
)

// labels are by client and step; loud are those that are not quiet. Whoever wants the lock may have
// to ask again, so that is quiet where the lock is to be had.
var labels, loud = func() (all [candidates][vCount]string, loud map[string]bool) {
	loud = map[string]bool{restartLabel: true, deletedLabel: true, flushedLabel: true}
	for c := range all {
		for l, text := range [vCount]string{
			"asks all masters for the lock", "unlocks", "renews", "a master executes its request", "gets an answer",
			"hears that there will be no answer", "releases before a vote was answered", "has waited long enough",
			"dies", "an undo releases",
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

var stands = map[string]bool{labels[0][vStands]: true, labels[1][vStands]: true}
