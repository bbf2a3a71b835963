package fair

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/lua"
)

// defence is a set of defences of the fair lock that are switched off.
type defence = line.Defence

// The defences in the scripts, and one more of the client.
const (
	heedsCount     defence = 1 << (iota + line.Defences) // grant: who cannot be reached is passed over
	keepsPlace                                           // grant: and keeps its place, for it need not be dead
	asksIsThere                                          // grant: who asks can be told by the answer
	claimIsShort                                         // grant: and that is sooner than that of a lease
	claimEnds                                            // grant: a claim has an end
	leaverGone                                           // release: who leaves has no place any more
	leaverHandsOn                                        // release: what is freed is handed on
	freesOwn                                             // release: by the owner only
	asksHead                                             // acquire: nobody passes the head
	ownGrant                                             // acquire: who was handed the lock is told so
	oncePlaced                                           // acquire: who has a place gets no other
	refreshes                                            // poll: places are put off
	reportsMissing                                       // poll: who lost its place is told

	runEnds    // grant: a run ends before another client's waiter
	runTokens  // grant: tokens are reserved for a run
	servedGone // release: those who were served have no place any more
	runWaits   // client: a run does not hand the lock to who has a question under way
)

// The other defences of clients.
const (
	pollInTime, pollAtAll, noticesBreak    = line.PollInTime, line.PollAtAll, line.NoticesBreak
	grantTime, ownMessage                  = line.GrantTime, line.OwnMessage
	freshOwner, freshUndo, servedFresh     = line.FreshOwner, line.FreshUndo, line.ServedFresh
	undo, undoAgain, servedGiven, lateness = line.Undo, line.UndoAgain, line.ServedGiven, line.Lateness
)

// state is all there is at one moment.
type state struct {
	keys
	claimed bool // the lock was handed over, and its owner has not said anything since
	line.State
}

// exploration is what a model needs while it is explored: it is the line's Kind.
type exploration struct {
	line.Line
	at       terms
	from, to state
	emit     func(string, state)
}

// next calls emit for everything that can happen in s.
func (m *fair) next(s state, emit func(string, state)) {
	from, outer := m.from, m.emit // emit looks for the way to a violation by calling this again
	m.from, m.emit = s, emit
	m.Steps()
	m.from, m.emit = from, outer
}

// start is the first state.
func (m *fair) start() state {
	m.Line = line.Line{Kind: m, From: &m.from.State, To: &m.to.State, Bounds: line.Bounds{
		Clients: m.clients, Waiters: m.waiters, Harmed: m.harmed, Home: m.home, Wishes: m.wishes,
		Lease: m.lease, Claim: m.claim, Place: m.place, Messages: m.messages, Faults: m.faults, Leaves: m.leavers, Crashes: m.crashes, Pauses: m.pauses,
		Breaks: m.breaks, Losses: m.losses, Tries: m.tries, Prompt: m.prompt, Off: m.off,
	}}
	return state{keys: keys{clock: 1}, State: m.Start()}
}

func (m *fair) Copy() { m.to = m.from }

func (m *fair) Emit(label string) { m.emit(label, m.to) }

func (m *fair) Tokens() (last, clock *uint8) { return &m.to.token, &m.to.clock }

func (m *fair) terms() *terms {
	m.at = terms{off: m.off, home: m.home, up: m.to.Up, lease: m.lease, claim: m.claim, place: m.place, keep: endless}
	return &m.at
}

func (m *fair) Execute(r line.Request) line.Answer {
	s, before, e := &m.to, m.to.keys, m.terms()
	var a answer
	switch {
	case r.Asks():
		a = s.acquire(e, r.ID, r.Again, r.Place)
		if a.status == lua.Denied && s.owner == r.ID && r.Place {
			s.Wrong |= byItself
		}
	case r.Frees():
		a = s.release(e, r.ID, r.Served)
	default:
		a = s.renew(e, r.ID)
	}
	m.judge(s, &before, r, nobody)
	m.Post(a.mail)
	return line.Answer{Status: a.status, Token: a.token}
}

func (m *fair) ExecuteFor(_ line.Request, c uint8, owners line.Owners) (told line.Answer) {
	before := m.to.keys
	a := m.to.poll(m.terms(), c, owners)
	m.judge(&m.to, &before, line.Request{}, c)
	m.Post(a.mail)
	told.Wake = a.missing
	for i, owner := range owners {
		if owner != 0 && a.holder == owner {
			told.Wake |= 1 << i
		}
	}
	return told
}

// HandOn hands the lock on within a client. It is false if the run has ended, and then the lock is
// released.
func (m *fair) HandOn(w uint8) bool {
	s := &m.to
	from := s.Waiters[w]
	for from.Run[0] != 0 && !from.Stray {
		next := from.Run.Pop()
		to, _ := line.WaiterOf(next)
		wr := &s.Waiters[to]
		if m.home[to] != m.home[w] || !s.Waits(next) {
			continue // it has left, or is not ours
		}
		if (wr.Stray || wr.Granted != 0 || wr.Handed != 0) && !m.off.Has(runWaits) {
			break
		}
		m.judgeRun(s, &from, next)
		from.Served.Push(next)
		*wr = line.Waiter{
			Mode: line.Has, Gen: wr.Gen, Wishes: wr.Wishes, Token: from.Token + 1, Trust: from.Trust,
			Renewed: from.Renewed, Field: from.Field, Run: from.Run, Served: from.Served,
		}
		if wr.Token > s.Top {
			s.Wrong |= oldToken
		}
		m.Rest(w, false)
		return true
	}
	return false
}

func (m *fair) Others() {}

func (m *fair) Tick() {
	m.to.tick()
	m.to.claimed = m.to.claimed && m.to.owner != 0
	if m.prompt { // who waits, and polls in time, does not lose its place
		for _, p := range m.to.queue {
			if p.Left == 0 && m.to.Waits(p.Owner) {
				m.to.Wrong |= lostPlace
			}
		}
	}
}

func (m *fair) EndQueue() bool {
	over := m.to.queue.Over()
	m.to.queue = line.Queue{}
	return over
}

func (m *fair) Lose() { m.to.keys, m.to.claimed = keys{}, false }
