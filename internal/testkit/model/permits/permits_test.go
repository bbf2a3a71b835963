package permits

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

type (
	bounds   = line.Bounds
	of       = line.Owners // numbers of waiters, one after another
	scenario = model.Scenario[semaphore]
)

// semaphore is the model within bounds.
type semaphore struct {
	line.Bounds
	few          of    // wishes with -short, where these are fewer
	want         of    // how many permits a waiter wants
	permits      int8  // default 2
	sets         uint8 // of the number of permits
	fewest, most int8  // to which it is set
	takes        uint8 // of a permit by a client of Redisson
}

// pair leaves two waiters of a scenario, each of a client of its own, for controls that have to see all states.
func pair(s scenario) scenario {
	s.In.Bounds = s.In.Pair()
	return s
}

// The scenarios. One with everything in it would not end; each has what its defences are against.
var (
	handsOver = scenario{"hands over", semaphore{want: of{1, 2, 1},
		Bounds: bounds{Home: of{0, 1, 2}, Wishes: of{1, 1, 1}, Breaks: 1, Lease: 2}}}
	together = scenario{"places together", semaphore{want: of{1, 1, 1}, permits: 1, few: of{1, 1},
		Bounds: bounds{Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Breaks: 1, Lease: 2}}}
	again = scenario{"again", semaphore{want: of{2, 1}, few: of{1, 2},
		Bounds: bounds{Home: of{0, 1}, Wishes: of{2, 2}, Tries: true, Lease: 2}}}
	loses = scenario{"loses requests", semaphore{want: of{2, 1}, few: of{1, 1},
		Bounds: bounds{Home: of{0, 1}, Wishes: of{2, 1}, Messages: 1, Faults: 1}}}
	losesTogether = scenario{"loses those for places together", semaphore{want: of{1, 1, 2}, few: of{1, 1},
		Bounds: bounds{Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Messages: 1, Faults: 1, Lease: 2}}}
	departs = scenario{"leaves", semaphore{want: of{2, 1}, few: of{1, 1},
		Bounds: bounds{Home: of{0, 1}, Wishes: of{2, 1}, Messages: 1, Faults: 1, Leaves: 1, Lease: 2}}}
	perishes = scenario{"dies", semaphore{want: of{1, 2, 1},
		Bounds: bounds{Home: of{0, 1, 2}, Wishes: of{1, 1, 1}, Messages: 1, Crashes: 1, Lease: 2}}}
	freezes = scenario{"stands still", semaphore{want: of{2, 1},
		Bounds: bounds{Home: of{0, 1}, Wishes: of{1, 2}, Pauses: 1}}}
	silent = scenario{"stands still with several", semaphore{want: of{2, 1, 2, 1}, few: of{1, 1, 1},
		Bounds: bounds{Home: of{1, 0, 0, 1}, Wishes: of{1, 1, 1, 1}, Pauses: 1, Lease: 2, Place: 4, Prompt: true}}}
	waits = scenario{"waits long", semaphore{want: of{1, 2, 1, 1},
		Bounds: bounds{Wishes: of{1, 1, 1, 1}, Lease: 2, Place: 3, Prompt: true}}}
	misses = scenario{"misses messages", semaphore{want: of{1, 2, 1},
		Bounds: bounds{Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Breaks: 1, Lease: 2, Place: 3, Prompt: true}}}
	resized = scenario{"number set", semaphore{want: of{1, 2, 1}, sets: 2, fewest: 1, most: 3, few: of{1, 1},
		Bounds: bounds{Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Lease: 2}}}
	shared = scenario{"shared with Redisson", semaphore{want: of{2, 1}, permits: 3, takes: 2,
		Bounds: bounds{Home: of{0, 1}, Wishes: of{1, 1}, Breaks: 1, Lease: 2}}}
	wiped = scenario{"server forgets", semaphore{want: of{2, 1},
		Bounds: bounds{Home: of{0, 1}, Wishes: of{2, 1}, Losses: 1}}}
)

// short gives a scenario fewer wishes with -short, where that makes a difference.
func short(m semaphore) semaphore {
	if testing.Short() && m.few != (of{}) {
		m.Wishes = m.few
	}
	return m
}

// TestPermitsModel: in no state that can be reached is a promise broken.
func TestPermitsModel(t *testing.T) {
	model.Run(t, "permits model", semaphore.explore, short, handsOver, together, again, loses, losesTogether, departs,
		perishes, freezes, silent, waits, misses, resized, shared, wiped)
}

// What must never be, beside what no line does.
var (
	errTooMany  = model.Must.Never("more permits are trusted than there are")
	errSome     = model.Must.Never("an owner has some of what it wants, and not all")
	errClaims   = model.Must.Never("a client that nobody hears of cost more than one claim for each permit")
	errWasted   = model.Must.Never("a client that asks was not told what it was handed before the claim ended")
	errLost     = model.Must.Never("a permit is lost")
	errInvented = model.Must.Never("a permit appeared from nowhere")
	errGranted  = model.Must.Never("permits were granted that were not free")
)

// judge notes what a script did to whom: whatever clients believe, these things must not happen.
func (m *exploration) judge(before *keys, r line.Request, a *answer) {
	s := &m.To
	if r.ID != 0 {
		s.claims[m.Of(r.ID)] = 0
	}
	for _, g := range a.grants[:a.granted] {
		m.JudgeToken(g.token)
		if !g.asked {
			m.judgeClaim(r, g.owner)
		}
		if !before.has(g.owner) { // who is told again what it has passes nobody
			m.JudgeOrder(&before.Queue, g.owner)
		}
	}
	s.Wrong.If(a.granted > 0 && s.free < 0 && !(a.granted == 1 && before.has(a.grants[0].owner)), errGranted)
	m.judgeOthers(before, r)
	if r.Kind != line.Renewal {
		m.judgePlaces(before, r, a)
		m.judgeFree(before, r, a)
	}
	m.settle()
}

// settle counts permits: what is free and what is out are all, and those that are too many come back first.
func (m *exploration) settle() {
	s := &m.To
	s.Wrong.If(s.counted && s.all() < s.total, errLost)
	s.Wrong.If(s.counted && s.all() > s.total, errInvented)
	live := int8(0)
	for _, p := range s.out {
		if p.left > 0 {
			live += p.n
		}
	}
	s.allowed = max(s.total, min(s.allowed, live))
}

// judgeClaim judges permits that were handed to an owner.
func (m *exploration) judgeClaim(r line.Request, owner uint8) {
	s, c := &m.To, m.Of(owner)
	s.claims[c] += m.at.wants(owner)
	s.Wrong.If(s.claims[c] > max(s.total, s.allowed), errClaims)
	s.Wrong.If(!s.Up.Has(c) && !m.Present(r, c), line.ErrDeaf)
	s.Wrong.If(s.of(owner).left > m.Claim, line.ErrClaim)
}

// judgeOthers: what other owners have is as it was.
func (m *exploration) judgeOthers(before *keys, r line.Request) {
	for _, p := range before.out {
		if p.n > 0 && p.left > 0 && !r.Own(p.owner) {
			now := m.To.of(p.owner)
			m.To.Wrong.If(now == nil || now.n != p.n || now.left != p.left, model.ErrAnothers)
		}
	}
}

// judgeFree: the first who waits and can be told has not enough. Who is told again what it has hands out nothing.
func (m *exploration) judgeFree(before *keys, r line.Request, a *answer) {
	s := &m.To
	if a.status == line.Excess || r.Asks() && before.has(r.ID) {
		return
	}
	for _, p := range model.Under(s.Queue[:]) {
		c, n := m.Of(p.Owner), m.at.wants(p.Owner)
		if p.Left > 0 && n <= s.all() && (s.Up.Has(c) && !p.Stale || m.Present(r, c)) {
			s.Wrong.If(n <= s.free, line.ErrIdle)
			return
		}
	}
}

// judgePlaces: those lose their places that leave, that want too many, or that are granted theirs, for the first time or again.
func (m *exploration) judgePlaces(before *keys, r line.Request, a *answer) {
	s := &m.To
	m.JudgePlaces(&before.Queue, func(owner uint8) bool {
		return owner == r.ID && (r.Frees() || a.status == line.Excess) || m.at.wants(owner) > s.all() ||
			a.grantTo(owner) >= 0 || s.has(owner) && s.Queue.At(owner) < 0
	})
}

// Check says what is wrong with a state. Where the server's data may be lost there is a promise about tokens and waiting alone.
func (m *exploration) Check(s *state) error {
	b, trusted := s.Wrong, int8(0)
	for w := range m.Waiters {
		wr := &s.Waiters[w]
		if wr.Mode != line.Has || wr.Trust == 0 || m.Losses > 0 {
			continue
		}
		owner := line.OwnerID(w, wr.Gen)
		trusted += m.at.wants(owner)
		b.If(!s.has(owner) || s.of(owner).n < m.at.wants(owner), model.ErrCut)
	}
	b.If(trusted > s.allowed, errTooMany)
	for _, p := range s.out {
		if p.n > 0 && p.owner != foreigner {
			b.If(p.left > m.Lease, line.ErrEndless)
			b.If(p.n != m.at.wants(p.owner) && !p.torn, errSome)
			b.If(p.left > 0 && !m.CaredFor(&s.State, p.owner), line.ErrLeft)
		}
	}
	m.CheckQueue(&b, &s.State, &s.Queue, s.has)
	return model.Must.First(b, m.Only)
}

// AtRest is the goal. All permits are free then, or become so when somebody asks.
func (m *exploration) AtRest(s *state) bool {
	taken := slices.ContainsFunc(s.out[:], func(p permit) bool { return p.left > 0 })
	return !taken && s.Queue[0].Owner == 0 && s.State.AtRest()
}

// TestPermitsModelControls: without any one of the defences there is a way to break a promise.
func TestPermitsModelControls(t *testing.T) {
	model.Controls(t, "permits model", semaphore.explore, []model.Control[semaphore]{
		{"acquire: no more is granted than is free", looksFree, again, errTooMany},
		{"grant: no more is handed out than is free", handsFree, handsOver, errGranted},
		{"the same, as clients see it", handsFree, handsOver, errTooMany},
		{"grant: who wants less does not pass who wants more", inOrder, handsOver, line.ErrPassed},
		{"acquire: nobody passes the head", line.AsksHead, handsOver, line.ErrPassed},
		{"acquire: what the head leaves goes to those behind it", handsRest, handsOver, line.ErrIdle},
		{"acquire: who has permits is told so", line.OwnGrant, loses, model.ErrItself},
		{"acquire: what a repeat finds of its owner is counted", line.OwnGrant | takesOwn | countsNew, loses, errLost},
		{"the same, after a claim has ended", takesOwn | countsNew, loses, errLost},
		{"hold: what Redisson has left of an owner's is not counted again", countsNew, shared, errLost},
		{"release: all permits of an owner come back", countsAll, again, errLost},
		{"release: it counts none that the owner did not have", countsGone, departs, errInvented},
		{"sweep: those whose leases have ended are counted", countsEnded, perishes, errLost},
		{"set: what is out is a part of the number", setsAll, resized, errInvented},
		{"renew: nothing is brought back", renewsOwn, loses, errInvented},
		{"tokens are greater than the last", newTokens, again, model.ErrToken},
		{"acquire: who wants more than there are is told", onlySoMany, pair(resized), model.ErrStuck},
		{"grant: who wants more than there are has no place any more", manyDropped, resized, line.ErrIdle},
		{"grant: and is told, where no poll tells it", manyTold | line.TellsMissing, pair(resized), model.ErrStuck},
		{"grant: it matters whether anybody listens", line.HeedsCount, handsOver, line.ErrDeaf},
		{"grant: who cannot be reached keeps its place", line.KeepsPlace, handsOver, line.ErrLostPlace},
		{"grant: a claim has an end", line.ClaimEnds, perishes, line.ErrClaim},
		{"the same, for those behind it", line.ClaimEnds, pair(perishes), model.ErrStuck},
		{"grant: a claim is for less than a lease that nobody renews", line.ClaimIsShort, loses, line.ErrClaim},
		{"grant: a client that let a claim end is passed over", silentPassed, silent, errClaims},
		{"grant: which is known before anything is handed out", sweepsFirst, silent, errClaims},
		{"release: who leaves has no place any more", line.LeaverGone, departs, line.ErrPlaceLeft},
		{"release: what is freed is handed on", line.HandsOn, handsOver, line.ErrIdle},
		{"the same, where nobody polls either", line.HandsOn | line.PollAtAll, pair(handsOver), model.ErrStuck},
		{"acquire: who has a place gets no other", line.OncePlaced, loses, line.ErrTwice},
		{"poll: it tells who has no place", line.TellsMissing, pair(wiped), model.ErrStuck},
		{"poll: it tells who was handed permits", tellsGiven | line.TellsMissing | line.NoticesBreak, misses, errWasted},
		{"poll: it puts places off", line.Refreshes, waits, line.ErrLostPlace},
		{"client: it polls, also while messages come", line.PollInTime, waits, line.ErrLostPlace},
		{"client: it polls", line.PollAtAll, pair(perishes), model.ErrStuck},
		{"client: the same, for a client that was not reached", line.PollAtAll | line.NoticesBreak, pair(handsOver), model.ErrStuck},
		{"client: a claim is trusted from the grant on", line.GrantTime, freezes, errTooMany},
		{"client: no message is trusted from before a refusal", line.OwnMessage, wiped, line.ErrPlaceLeft},
		{"client: a hold is trusted for less than its lease", line.TrustEnds, perishes, model.ErrCut},
		{"the same, with another who holds", line.TrustEnds, again, errTooMany},
		{"client: an owner id is used for one acquisition", freshOwner, departs, model.ErrCut},
		{"client: what may be left is given back", line.Undo, departs, line.ErrPlaceLeft},
		{"client: and given back again", line.UndoAgain, departs, line.ErrPlaceLeft},
		{"the same, where a straggler takes permits", line.UndoAgain, departs, line.ErrLeft},
		{"acquire: one that comes late refuses itself", line.Lateness, departs, line.ErrPlaceLeft},
		{"the same, where it takes permits", line.Lateness, departs, line.ErrLeft},
	})
}
