package permits

import (
	"strconv"

	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/lua"
)

// defence is a set of defences of the semaphore that are switched off.
type defence = line.Defence

// The defences in the scripts.
const (
	looksFree    defence = 1 << (iota + line.Defences) // acquire: no more is granted than is free
	handsFree                                          // grant: no more is handed out than is free
	inOrder                                            // grant: who wants less does not pass who wants more
	ownGrant                                           // acquire: who has permits is told so
	takesOwn                                           // acquire: what an owner has left behind is counted before it gets anything
	countsNew                                          // hold: what the owner has already is not counted again
	countsAll                                          // release: all permits of an owner are counted
	countsGone                                         // release: and none that it did not have
	countsEnded                                        // sweep: those whose leases have ended are counted
	setsAll                                            // set: what is out is a part of the number
	renewsOwn                                          // renew: nothing is brought back
	asksHead                                           // acquire: nobody passes the head
	handsRest                                          // acquire: what the head leaves goes to those behind it
	onlySoMany                                         // acquire: who wants more than there are is told
	manyDropped                                        // grant: who wants more than there are has no place any more
	manyTold                                           // grant: and is told
	heedsCount                                         // grant: who cannot be reached is passed over
	keepsPlace                                         // grant: and keeps its place, for it need not be dead
	claimIsShort                                       // grant: a claim is for less than a lease that nobody renews
	claimEnds                                          // grant: a claim has an end
	silentPassed                                       // grant: a client that let a claim end is passed over
	sweepsFirst                                        // grant: which is known before anything is handed out
	leaverGone                                         // release: who leaves has no place any more
	handsOn                                            // release: what is freed is handed on
	oncePlaced                                         // acquire: who has a place gets no other
	refreshes                                          // poll: places are put off
	tellsMissing                                       // poll: who lost its place is told
	tellsGiven                                         // poll: who was handed permits is told
	newTokens                                          // a token is greater than the last
)

// The defences of clients.
const (
	pollInTime, pollAtAll, noticesBreak = line.PollInTime, line.PollAtAll, line.NoticesBreak
	grantTime, ownMessage, trustEnds    = line.GrantTime, line.OwnMessage, line.TrustEnds
	undo, undoAgain, lateness           = line.Undo, line.UndoAgain, line.Lateness

	freshOwner = line.FreshOwner | line.FreshUndo // an owner id is used for one acquisition
)

const (
	maxOut    = 6
	maxGrants = 6 // of one script, and messages
)

// foreigner is the owner of a permit of Redisson's, which has none.
const foreigner = line.LastID + 1

// permit is what an owner has. Zero: nobody. Without permits it is a mark that it was handed some.
type permit struct {
	owner, n uint8
	left     uint8 // ticks; 0: its lease has ended, and nobody has taken it back
	handed   bool  // unasked, and it has not asked or given back since
	torn     bool  // Redisson has taken back the one that has no number
}

// state is all there is at one moment.
type state struct {
	keys
	line.State
	claims  [line.MaxClients]uint8 // permits handed to a client since it was heard of
	total   uint8                  // how many permits there are to be
	allowed uint8                  // how many may be out: more where the number was made less

	sets, takes uint8 // that may still come
}

// exploration is what a model needs while it is explored: it is the line's Kind.
type exploration struct {
	line.Line
	at       terms
	from, to state
	emit     func(string, state)
}

// start is the first state.
func (m *semaphore) start() state {
	m.Line = line.Line{Kind: m, From: &m.from.State, To: &m.to.State, Bounds: line.Bounds{
		Clients: m.clients, Waiters: m.waiters, Harmed: m.harmed, Home: m.home, Wishes: m.wishes,
		Lease: m.lease, Claim: m.claim, Place: m.place, Messages: m.messages, Faults: m.faults, Leaves: m.leavers, Crashes: m.crashes, Pauses: m.pauses,
		Breaks: m.breaks, Losses: m.losses, Tries: m.tries, Prompt: m.prompt, Listening: true, NewOwners: true, Off: m.off,
	}}
	for w, n := range m.want {
		m.Together[w] = n == 1
	}
	return state{
		keys: keys{clock: 1}, State: m.Start(), total: m.permits, allowed: m.permits, sets: m.sets, takes: m.takes,
	}
}

// next calls emit for everything that can happen in s.
func (m *semaphore) next(s state, emit func(string, state)) {
	from, outer := m.from, m.emit // emit looks for the way to a violation by calling this again
	m.from, m.emit = s, emit
	m.Steps()
	m.from, m.emit = from, outer
}

func (m *semaphore) Copy() { m.to = m.from }

// Emit forgets marks of what was handed to those who have left: nobody looks at them, and they would
// make more states.
func (m *semaphore) Emit(label string) {
	for i := range m.to.out {
		if p := &m.to.out[i]; p.owner != 0 && p.n == 0 && !m.CaredFor(&m.to.State, p.owner) {
			p.handed = false
		}
	}
	m.to.tidy()
	m.emit(label, m.to)
}

func (m *semaphore) Tokens() (last, clock *uint8) { return &m.to.token, &m.to.clock }

func (m *semaphore) terms() *terms {
	m.at = terms{
		off: m.off, home: m.home, want: m.want, up: m.to.Up, permits: m.permits, lease: m.lease, claim: m.claim,
		place: m.place, keep: endless,
	}
	return &m.at
}

func (m *semaphore) Execute(r line.Request) line.Answer {
	s, before, e := &m.to, m.to.keys, m.terms()
	var a answer
	switch {
	case r.Asks():
		a = s.acquire(e, r.ID, r.Again, r.Place)
		if a.status == lua.Denied && s.has(r.ID) {
			s.Wrong |= byItself
		}
	case r.Frees():
		a = s.release(e, r.ID)
	default:
		a = s.renew(e, r.ID)
	}
	return m.done(&before, r, a)
}

func (m *semaphore) ExecuteFor(r line.Request, c uint8, owners line.Owners) line.Answer {
	before := m.to.keys
	if r.Kind == line.Joins {
		return m.done(&before, r, m.to.join(m.terms(), owners))
	}
	a := m.to.poll(m.terms(), c, owners)
	told := m.done(&before, r, a)
	told.Wake = a.missing
	for i, owner := range owners {
		if owner != 0 && a.given&(1<<owner) != 0 {
			told.Wake |= 1 << i
		}
	}
	return told
}

// done is what follows a script: judges look at it, and messages are on their way.
func (m *semaphore) done(before *keys, r line.Request, a answer) line.Answer {
	m.judge(&m.to, before, r, &a)
	for _, to := range a.mail[:a.mails] {
		m.Post(to)
	}
	return line.Answer{Status: a.status, Token: a.token}
}

// HandOn does nothing: a client does not hand permits on.
func (m *semaphore) HandOn(uint8) bool { return false }

var (
	setLabels  [4]string // by the number that is set
	takesLabel = line.LoudLabel("a client of Redisson asks for a permit")
	givesLabel = "a client of Redisson gives its permit back"
)

func init() {
	for i := range setLabels {
		setLabels[i] = line.LoudLabel("the number of permits is set to " + strconv.Itoa(i))
	}
}

// Others are the steps of those who are no waiters: who sets the number of permits, and a client of
// Redisson.
func (m *semaphore) Others() {
	s := &m.from
	for permits := m.fewest; permits <= m.most && s.sets > 0; permits++ {
		if permits != s.total {
			m.Begin()
			before := m.to.keys
			m.to.sets--
			m.to.total = permits
			m.done(&before, line.Request{Kind: line.Sets}, m.to.set(m.terms(), permits))
			m.Step(setLabels[permits])
		}
	}
	if s.of(foreigner) != nil {
		m.Begin()
		m.to.foreignGives()
		m.settle(&m.to)
		m.Step(givesLabel)
	} else if s.takes > 0 && s.counted {
		ended := false
		for _, p := range s.out {
			if p.n > 0 && p.left == 0 {
				ended = true
				m.foreignTakes(p.owner)
			}
		}
		if !ended && s.free > 0 {
			m.foreignTakes(0)
		}
	}
}

func (m *semaphore) foreignTakes(ended uint8) {
	m.Begin()
	m.to.takes--
	m.to.foreignTakes(m.terms(), ended)
	m.settle(&m.to)
	m.Step(takesLabel)
}

func (m *semaphore) Tick() {
	s := &m.to
	s.tick()
	m.settle(s)
	if m.prompt && m.pauses == 0 { // who waits, and polls in time, loses neither its place nor what it was handed
		for _, p := range s.queue {
			if p.Left == 0 && s.Waits(p.Owner) {
				s.Wrong |= lostPlace
			}
		}
		for _, p := range s.out {
			if p.n > 0 && p.left == 0 && p.handed && s.Waits(p.owner) {
				s.Wrong |= wasted
			}
		}
	}
}

func (m *semaphore) EndQueue() bool {
	over := m.to.queue.Over()
	m.to.endQueue()
	return over
}

func (m *semaphore) Lose() { m.to.keys, m.to.total, m.to.allowed = keys{}, m.permits, m.permits }
