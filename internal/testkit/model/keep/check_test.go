package keep

import "github.com/holdfast-go/holdfast/internal/testkit/model"

// What must never be.
var (
	must     model.Promises
	errTwo   = must.Never("two clients trust their holds")
	errCut   = must.Never("a client trusts a hold that the server does not know")
	errToken = must.Never("a token that is not greater than all before it")
	errStale = must.Never("a lock is taken whose lease cannot be trusted")
)

func (m *keeping) check(s *state) error {
	broken := s.wrong
	if s.a.mode == holding && !s.forced {
		broken.If(s.b.mode == has, errTwo)
		broken.If(s.Owner != s.a.id(), errCut)
	}
	return must.First(broken, m.only)
}

// served is the goal: B has had what it waited for. Quiet steps are those that happen by themselves, and
// none of them is there to save who waits.
func (m *keeping) served(s *state) bool { return s.b.wishes == 0 && s.b.mode == away }
