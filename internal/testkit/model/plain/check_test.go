package plain

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

// What must never be.
var (
	must        model.Promises
	errToken    = must.Never("a token that is not greater than all before it")
	errAnothers = must.Never("a command changed the lock of another owner")
	errBack     = must.Never("a lock that had ended was brought back")
	errItself   = must.Never("a client was refused because of its own earlier attempt")
	errEndless  = must.Never("a key has no time to live")
	errTwo      = must.Never("two clients trust their holds")
	errCut      = must.Never("a client trusts a hold that the server does not know")
	errCount    = must.Never("the server's hold count is not the holder's")
	errHolders  = must.Never("the holder's token is not that of its grant")
	errLeft     = must.Never("the lock is held for nobody, and nothing is on its way that would free it")
)

// check is what is wrong with a state. Where keys are lost there is a promise about tokens alone.
func (m *lock) check(s *state) error {
	broken := s.wrong
	if m.losses > 0 {
		return must.First(broken.Only(errToken), m.only)
	}
	broken.If(s.Owner != 0 && (s.TTL == 0 || s.TTL > m.long), errEndless)
	holders := 0
	for c := range m.clients {
		cl := &s.clients[c]
		if cl.mode != holding {
			continue
		}
		holders++
		broken.If(s.Owner != id(c, cl.gen), errCut)
		broken.If(cl.op.at == server.None && !s.dirty && s.Count != cl.holds, errCount)
		broken.If(s.Token != cl.token, errHolders)
	}
	broken.If(holders > 1, errTwo)
	broken.If(m.brief && !m.cared(s), errLeft)
	return must.First(broken, m.only)
}

// cared reports whether somebody cares for the lock that is held. It is for a network whose requests
// arrive however late; only what can do no harm here but take room is lost when it is late.
func (m *lock) cared(s *state) bool {
	if s.Owner == 0 || s.crashed&(1<<s.Owner) != 0 {
		return true
	}
	c, gen := ownerOf(s.Owner)
	return s.clients[c].gen == gen && s.clients[c].mode != idle ||
		model.Count(s.net[:], func(r message) bool { return r.id == s.Owner }) > 0
}

// free is the goal: the lock is free, and nobody does anything.
func (m *lock) free(s *state) bool {
	for c := range m.clients {
		if s.clients[c].mode != idle {
			return false
		}
	}
	return s.Owner == 0 && s.net[0] == (message{})
}
