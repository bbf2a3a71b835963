package line

import (
	"errors"

	"github.com/holdfast-go/holdfast/lua"
)

// Defence is a set of defences that are switched off.
type Defence uint64

// Has reports whether one of some defences is switched off.
func (d Defence) Has(one Defence) bool { return d&one != 0 }

// The defences of clients.
const (
	PollInTime   Defence = 1 << iota // a poll is put off by messages, but not for ever
	PollAtAll                        // somebody looks after the queue
	GrantTime                        // a claim is trusted from when it was handed over, not from when that was heard of
	OwnMessage                       // a message of a grant from before a refusal is not trusted
	FreshOwner                       // an owner id with a straggler is not used again
	FreshUndo                        // nor is one that is being given back
	ServedFresh                      // nor is one that a run has served
	ServedGiven                      // places of those who were served are given back if the lock is lost
	Undo                             // what a waiter may have left is given back
	UndoAgain                        // and given back again, for a straggler
	Lateness                         // one that comes later than that refuses itself
	NoticesBreak                     // when the mailbox breaks, the waiters ask
	TrustEnds                        // a hold is trusted for less than its lease
)

// Defences is how many these are: a model's own defences are the bits above them.
const Defences = 13

// Bounds are how much of everything there is in a scenario, and the rules in which the kinds of
// locks differ.
type Bounds struct {
	Clients, Waiters    uint8
	Harmed              uint8             // how many of the clients meet faults, leave, stand still and die
	Home                [MaxWaiters]uint8 // whose client's a waiter is
	Wishes              [MaxWaiters]uint8 // locks that a waiter wants, one after another
	Together            [MaxWaiters]bool  // may ask for its first place together with others of its client
	Lease, Claim, Place uint8             // ticks
	Messages            int               // that were given up and may still arrive, at a time

	Faults, Leaves, Crashes, Pauses uint8 // requests or answers that do not come in time, callers that leave, ...
	Breaks                          uint8 // of mailboxes
	Losses                          uint8 // of the server's keys

	Tries     bool // the last waiter also tries the lock without waiting
	Prompt    bool // clients do in time what they have to
	Listening bool // and to subscribe is a part of that
	NewOwners bool // every acquisition has an owner id of its own
	Off       Defence
}

// Answer is what a client learns from a reply.
type Answer struct {
	Status lua.Status
	Token  uint8 // of a grant
	Wake   uint8 // the answer to a poll: a bit for each owner in it that has reason to ask
}

// Excess is a reply that the lock has not so many permits.
const Excess lua.Status = 100

// Kind is what a model adds to the line: the server, and the judges of what it does. All methods
// work on the state To that a step is about to reach.
type Kind interface {
	// Copy makes To equal to From.
	Copy()
	// Emit tells the explorer that To has been reached.
	Emit(label string)
	// Tokens are the last token that was granted and the clock, at the server.
	Tokens() (last, clock *uint8)
	// Execute runs the script of a request. It posts the messages that the script sends.
	Execute(r Request) Answer
	// ExecuteFor is the same for a poll or a join of a client, for several owners.
	ExecuteFor(r Request, c uint8, of Owners) Answer
	// HandOn ends the hold of a waiter by handing it to the next of its run; false if there is
	// none.
	HandOn(w uint8) bool
	// Others takes the steps that only this model has.
	Others()
	// Tick is a tick of the server.
	Tick()
	// EndQueue ends the queue's keys, if they may end by themselves.
	EndQueue() bool
	// Lose is the loss of all keys.
	Lose()
}

// Line is one exploration under way.
type Line struct {
	Bounds
	Kind         Kind
	From, To     *State // where the steps that are taken begin, and where the present one ends
	Cut, CutMail int    // messages for which the bounds had no room
}

// Start is the first state.
func (b *Bounds) Start() (s State) {
	s = State{
		Faults: b.Faults, Leaves: b.Leaves, Crashes: b.Crashes, Pauses: b.Pauses, Breaks: b.Breaks, Losses: b.Losses,
	}
	for w := range b.Waiters {
		s.Waiters[w].Wishes = b.Wishes[w]
	}
	return s
}

// Steps takes all steps that are possible in From.
//
// A request travels in no time, since nothing that its sender does depends on whether it is still
// on its way: one that is slow is one that is sent later. What is late all the same was sent before
// its sender went on without it. Answers that make a difference to trust travel on their own; so do
// messages.
func (l *Line) Steps() {
	for w := range l.Waiters {
		if l.awake(l.Home[w]) {
			l.wants(w)
			l.attempts(w)
			l.holds(w)
			l.leaves(w)
		}
	}
	for c := range l.Clients {
		l.listens(c)
		if l.awake(c) {
			l.polls(c)
			l.joins(c)
		}
		l.process(c)
	}
	l.network()
	l.Kind.Others()
	l.time()
}

// Begin begins a step: what is done to the state that it returns leads to the next one.
func (l *Line) Begin() *State {
	l.Kind.Copy()
	return l.To
}

// Step ends a step.
func (l *Line) Step(label string) {
	l.compact()
	l.forget()
	l.Kind.Emit(label)
}

// Post puts a message, if there is one, on its way.
func (l *Line) Post(m Mail) {
	if m != (Mail{}) && !l.To.post(m) {
		l.CutMail++
	}
}

// awake reports whether a process does anything.
func (l *Line) awake(c uint8) bool { return !l.From.Paused.Has(c) && !l.From.Dead.Has(c) }

// frail reports whether something may go wrong with the next request of a client.
func (l *Line) frail(c uint8) bool { return l.From.Faults > 0 && c < l.Harmed }

// Of tells whose client's an owner is.
func (l *Line) Of(owner uint8) uint8 {
	w, _ := WaiterOf(owner)
	return l.Home[w]
}

// CaredFor reports whether somebody will give back what an owner has: a process that lives and
// knows of it. For whom there is no process any more, a lease and a deadline are the ends.
func (l *Line) CaredFor(s *State, owner uint8) bool {
	if s.Crashed&(1<<(owner-1)) != 0 {
		return true
	}
	if w, gen := WaiterOf(owner); s.Waiters[w].Gen == gen && s.Waiters[w].Mode != Away {
		return true
	}
	for _, r := range s.Net {
		if r.ID == owner || r.Served.Has(owner) {
			return true
		}
	}
	for _, wr := range s.Waiters {
		if wr.Field == owner || wr.Served.Has(owner) {
			return true
		}
	}
	return false
}

// AtRest reports whether nobody holds, waits or does anything.
func (s *State) AtRest() bool {
	for _, wr := range s.Waiters {
		if wr.Mode != Away {
			return false
		}
	}
	return s.Net[0] == (Request{}) && s.Mail[0] == (Mail{})
}

// FirstWrong is the first of some errors: those of the bits of Wrong, and others that have been
// found. A control that looks for one thing only is not stopped by another.
func (s *State) FirstWrong(only error, wrongs []error, found ...error) error {
	for i, err := range wrongs {
		if s.Wrong&(1<<i) != 0 && (only == nil || errors.Is(err, only)) {
			return err
		}
	}
	for _, err := range found {
		if err != nil && (only == nil || errors.Is(err, only)) {
			return err
		}
	}
	return nil
}
