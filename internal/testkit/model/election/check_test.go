package election

import "errors"

// wrong is a set of things that a step did and must not.
type wrong uint8

const (
	beside wrong = 1 << iota
	functions
	left
	untrue
	backwards
	unheld
	sameToken
)

// What must never be.
var (
	errBeside    = errors.New("a process campaigns while its function is at work")
	errFunctions = errors.New("two functions of one process are at work")
	errLeft      = errors.New("what a leader said stands when it has resigned")
	errUntrue    = errors.New("an observer is told of a leader that does not lead")
	errBackwards = errors.New("an observer is told of an earlier leader after a later one")
	errUnheld    = errors.New("who does not hold the lock has announced itself")
	errKept      = errors.New("the lock is held for nobody, and nothing is on its way that would free it")
	errTwo       = errors.New("two lead, and both trust it")
	errToken     = errors.New("a leader's token is not greater than all before it")
	errWork      = errors.New("two functions are at work that have not lost their leadership")
	errCut       = errors.New("a leader trusts what the server does not know")
	errUnknown   = errors.New("what the present leader said is not what is told")
	errSilent    = errors.New("a leader leads that has not announced itself")
	errEndless   = errors.New("an announcement has no end")
)

var wrongs = []error{errBeside, errFunctions, errLeft, errUntrue, errBackwards, errUnheld, errToken}

func (m *electing) check(s state) error {
	find := func(is bool, err error) error {
		if is && (m.only == nil || errors.Is(m.only, err)) {
			return err
		}
		return nil
	}
	for i, err := range wrongs {
		if err := find(s.wrong&(1<<i) != 0, err); err != nil {
			return err
		}
	}
	a, b := &s.c[0], &s.c[1]
	err := errors.Join(
		find(s.announced && (s.said != s.token || s.saidBy != s.owner), errUnknown),
		find(s.said != 0 && (s.saidTTL == 0 || s.saidTTL > m.keep), errEndless),
		find(s.owner != 0 && !m.cared(&s), errKept),
	)
	if err != nil || s.harmed {
		return err
	}
	for c := range s.c {
		cd := &s.c[c]
		trusts := cd.trust > 0 && (cd.mode == leading || cd.mode == announcing)
		err = errors.Join(err,
			find(trusts && s.owner != s.id(c), errCut),
			find(trusts && cd.mode == leading && !s.announced, errSilent))
	}
	return errors.Join(err,
		find(a.mode == leading && b.mode == leading && a.trust > 0 && b.trust > 0, errTwo),
		find(a.works > 0 && b.works > 0 && !a.lost && !b.lost, errWork),
	)
}

// cared reports whether somebody cares for the lock that is held.
func (m *electing) cared(s *state) bool {
	c, _ := ownerOf(s.owner)
	if s.c[c].dead || s.id(c) == s.owner && s.c[c].mode != away || s.undo&(1<<s.owner) != 0 {
		return true
	}
	for _, r := range s.net {
		if r.kind == release && r.id == s.owner {
			return true
		}
	}
	return false
}

// observed is a goal: what was told last is so.
func observed(s state) bool {
	now := uint8(0)
	if s.said != 0 && s.owner == s.saidBy {
		now = s.said
	}
	return s.o.began && s.o.last == now
}

// calm is a goal: all who have campaigned have led, or have left.
func calm(s state) bool { return s.c[0].mode == away && s.c[1].mode == away }

// Labels of steps.
const (
	lCampaigns = iota
	lCalled
	lPolls
	lLeaves
	lServer
	lAnswer
	lResends
	lGivesUp
	lRenews
	lRenewsLate
	lRenewed
	lReturns
	lEnds
	lUndoes
	lDies
	lCount
)

const (
	lLooks     = "O: the server executes its look"
	lUnheard   = "O: hears nothing of its look"
	lSees      = "O: gets the answer to its look"
	lWakes     = "O: has reason to look"
	lListens   = "O: the server subscribes it"
	lConfirmed = "O: knows that it listens"
	lNotices   = "O: notices that its connection is broken"
	lTold      = "O: gets a message"
	lBreaks    = "O's connection breaks"
	lDropped   = "a late request is lost"
	lStraggler = "a late request arrives"
	lForced    = "somebody deletes the lock"
	lLost      = "the server loses its keys"
	lTime      = "time passes"
)

// labels are by candidate and step. quietly are those that happen by themselves.
var labels, quietly = func() (all [maxCandidates][lCount]string, quiet map[string]bool) {
	texts := [lCount]string{
		"campaigns", "gets the message of its grant", "polls", "its caller leaves", "the server executes its command", "gets the answer",
		"hears nothing and sends again", "hears nothing and gives up", "renews", "renews, and that is late", "gets the answer to its renewal",
		"its function returns", "the context of Run ends", "an undo releases", "dies",
	}
	quiet = map[string]bool{lDropped: true, lTime: true}
	for c := range all {
		for l := range all[c] {
			all[c][l] = string(rune('A'+c)) + ": " + texts[l]
		}
		for _, l := range []int{lCalled, lPolls, lServer, lAnswer, lRenewed, lReturns, lUndoes} {
			quiet[all[c][l]] = true
		}
	}
	return all, quiet
}()

// observing are the steps of the observer and of its connection.
func observing(label string) bool {
	switch label {
	case lLooks, lSees, lWakes, lListens, lConfirmed, lNotices, lTold:
		return true
	}
	return false
}
