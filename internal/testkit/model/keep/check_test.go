package keep

import "errors"

// wrong is a set of things that a step did and must not.
type wrong uint8

const (
	smallToken wrong = 1 << iota
	stale
)

// What must never be.
var (
	errTwo   = errors.New("two clients trust their holds")
	errCut   = errors.New("a client trusts a hold that the server does not know")
	errToken = errors.New("a token that is not greater than all before it")
	errStale = errors.New("a lock is taken whose lease cannot be trusted")
)

func (m *keeping) check(s state) error {
	find := func(is bool, err error) error {
		if is && (m.only == nil || errors.Is(m.only, err)) {
			return err
		}
		return nil
	}
	return errors.Join(
		find(s.a.mode == holding && s.b.mode == has && !s.forced, errTwo),
		find(s.a.mode == holding && s.owner != s.a.id() && !s.forced, errCut),
		find(s.wrong&smallToken != 0, errToken),
		find(s.wrong&stale != 0, errStale),
	)
}

// served is the goal: B has had what it waited for.
func (m *keeping) served(s state) bool { return s.b.wishes == 0 && s.b.mode == away }

// The steps. Quiet ones happen by themselves, and none of them is there to save who waits.
const (
	lWants     = "A: wants the lock, and asks"
	lAdopts    = "A: wants the lock, and takes it from itself"
	lKeeps     = "A: unlocks and keeps it"
	lPasses    = "A: unlocks and asks who listens"
	lUnlocks   = "A: unlocks and releases"
	lServer    = "A: the server executes its command"
	lAnswer    = "A: gets the answer"
	lIdle      = "A: it was idle for too long"
	lLost      = "A: a kept lock is lost"
	lGone      = "A: a renewal finds nothing"
	lRenews    = "A: renews"
	lCloses    = "A: is closed"
	lMailbox   = "A: its mailbox is subscribed"
	lHears     = "A: hears from its mailbox"
	lNotices   = "A: notices that the connection of its mailbox is broken"
	lCalled    = "A: is called"
	lSilent    = "a call is lost without a word"
	lBreaks    = "the connection of A's mailbox breaks"
	lResends   = "A: hears nothing and sends again"
	lUndoes    = "A: an undo releases"
	lDropped   = "a late message is lost"
	lStraggler = "a late message arrives"
	lForced    = "somebody forces the lock free"
	lTime      = "time passes"
	lTimeAfter = "time passes for what nobody has"

	lBWants     = "B: wants the lock, and asks"
	lBTries     = "B: tries"
	lBServer    = "B: the server executes its command"
	lBAnswer    = "B: gets the answer"
	lBListens   = "B: the server subscribes it"
	lBConfirmed = "B: knows that it listens"
	lBWoken     = "B: is woken, and asks"
	lBUnlocks   = "B: unlocks"
)

func (m *keeping) quiet(label string) bool {
	switch label {
	case lWants, lAdopts, lLost, lRenews, lCloses, lSilent, lBreaks, lResends, lForced, lTime, lBTries:
		return false
	case lIdle:
		return m.expires && !m.off.has(idleEnds)
	}
	return true
}
