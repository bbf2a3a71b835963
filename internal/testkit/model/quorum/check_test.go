package quorum

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

// What must never be.
var (
	must        model.Promises
	errToken    = must.Never("a token that is not greater than all before it")
	errBack     = must.Never("a lock that had ended was brought back")
	errAnothers = must.Never("a command changed the lock of another owner")
	errVisited  = must.Never("a hold is renewed that another owner had meanwhile")
	errFalse    = must.Never("a holder is told that its lock is lost, which it was not")
	errTwo      = must.Never("two clients trust their holds")
	errLeft     = must.Never("the lock is held for nobody, and nothing is on its way that would free it")
)

// check is what is wrong with a state. Where keys are deleted at a majority, two may hold the lock until
// the first one hears of it: what is promised then is that it does. That nothing is left is promised for
// a network whose other messages than votes live for less than the pause in an undo, and for processes
// that do not die.
func (m *voting) check(s *state) error {
	broken := s.wrong
	broken.If(m.forgets == 0 && s.candidates[0].mode == holding && s.candidates[1].mode == holding, errTwo)
	if m.brief && m.crashes == 0 {
		for i := range m.voters {
			broken.If(!s.voters[i].cared(s), errLeft)
		}
	}
	return must.First(broken, m.only)
}

// cared: whoever a master has granted the lock to stands for election, holds it, or has it given back by
// something that is under way.
func (v *voter) cared(s *state) bool {
	if v.Owner == 0 {
		return true
	}
	c := candidateOf(v.Owner)
	if cl := &s.candidates[c]; cl.mode != idle && ownerID(c, cl.gen) == v.Owner &&
		(cl.mode != leaving || v.ballots[c].op != server.None) {
		return true
	}
	return model.Count(v.net[:], func(l letter) bool {
		return l.id == v.Owner && (l.kind == undoer || l.kind == acquire && l.step&agedVote == 0)
	}) > 0
}

// free is that nobody has the lock or wants it, and nothing is under way.
func (m *voting) free(s *state) bool {
	for i := range m.voters {
		if v := &s.voters[i]; v.Owner != 0 || v.net[0] != (letter{}) {
			return false
		}
	}
	return s.candidates[0].mode == idle && s.candidates[1].mode == idle
}

// taken is that somebody has it.
func (m *voting) taken(s *state) bool {
	return s.candidates[0].mode == holding || s.candidates[1].mode == holding
}
