package handoff

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
	errFalse    = must.Never("a holder is told that its lock is lost, which it was not")
	errShort    = must.Never("the lock is handed on with less than half of the lease left")
	errTwo      = must.Never("two clients trust their holds")
	errCut      = must.Never("a client trusts a hold that the server does not know")
	errLeft     = must.Never("the lock is held for nobody, and nothing is on its way that would free it")
)

func (m *hand) check(s *state) error {
	broken := s.wrong
	broken.If(s.clients[0].mode == holding && s.clients[1].mode == holding, errTwo)
	for c := range s.clients {
		cl := &s.clients[c]
		broken.If(cl.mode == holding && cl.id != s.Owner, errCut)
	}
	broken.If(m.brief && !s.cared(), errLeft)
	return must.First(broken, m.only)
}

// cared: whoever the lock is held by uses it, or gives it back, or is dead.
func (s *state) cared() bool {
	if s.Owner == 0 || s.crashed&(1<<s.Owner) != 0 {
		return true
	}
	cl := &s.clients[clientOf(s.Owner)]
	return cl.id == s.Owner || cl.try.owner == s.Owner ||
		model.Count(s.net[:], func(r message) bool { return r.owner == s.Owner }) > 0
}

// free is the goal.
func (m *hand) free(s *state) bool {
	return s.Owner == 0 && s.net[0] == (message{}) && s.clients[0].mode == idle && s.clients[1].mode == idle &&
		s.clients[0].try.at == server.None
}
