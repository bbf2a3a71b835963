package election

import "github.com/holdfast-go/holdfast/internal/testkit/model"

// What must never be.
var (
	must         model.Promises
	errBeside    = must.Never("a process campaigns while its function is at work")
	errFunctions = must.Never("two functions of one process are at work")
	errLeft      = must.Never("what a leader said stands when it has resigned")
	errUntrue    = must.Never("an observer is told of a leader that does not lead")
	errBackwards = must.Never("an observer is told of an earlier leader after a later one")
	errUnheld    = must.Never("who does not hold the lock has announced itself")
	errToken     = must.Never("a leader's token is not greater than all before it")
	errUnknown   = must.Never("what the present leader said is not what is told")
	errEndless   = must.Never("an announcement has no end")
	errKept      = must.Never("the lock is held for nobody, and nothing is on its way that would free it")
	errCut       = must.Never("a leader trusts what the server does not know")
	errSilent    = must.Never("a leader leads that has not announced itself")
	errTwo       = must.Never("two lead, and both trust it")
	errWork      = must.Never("two functions are at work that have not lost their leadership")
)

func (m *electing) check(s *state) error {
	broken := s.wrong
	broken.If(s.announced && (s.said != s.token || s.saidBy != s.owner), errUnknown)
	broken.If(s.said != 0 && (s.saidTTL == 0 || s.saidTTL > m.keep), errEndless)
	broken.If(!m.cared(s), errKept)
	if s.harmed {
		return must.First(broken, m.only)
	}
	for c := range s.c {
		cd := &s.c[c]
		trusts := cd.trust > 0 && (cd.mode == leading || cd.mode == announcing)
		broken.If(trusts && s.owner != s.id(c), errCut)
		broken.If(trusts && cd.mode == leading && !s.announced, errSilent)
	}
	a, b := &s.c[0], &s.c[1]
	broken.If(a.mode == leading && b.mode == leading && a.trust > 0 && b.trust > 0, errTwo)
	broken.If(a.works > 0 && b.works > 0 && !a.lost && !b.lost, errWork)
	return must.First(broken, m.only)
}

// cared reports whether somebody cares for the lock that is held.
func (m *electing) cared(s *state) bool {
	c, _ := ownerOf(max(s.owner, 1))
	return s.owner == 0 || s.c[c].dead || s.id(c) == s.owner && s.c[c].mode != away || s.undo&(1<<s.owner) != 0 ||
		model.Count(s.net[:], func(r request) bool { return r.kind == release && r.id == s.owner }) > 0
}

// observed is a goal: what was told last is so.
func observed(s *state) bool {
	now := uint8(0)
	if s.said != 0 && s.owner == s.saidBy {
		now = s.said
	}
	return s.o.began && s.o.last == now
}

// calm is a goal: all who have campaigned have led, or have left.
func calm(s *state) bool { return s.c[0].mode == away && s.c[1].mode == away }
