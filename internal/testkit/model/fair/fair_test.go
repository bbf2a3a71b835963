package fair

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/fidelity"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

func TestMain(m *testing.M) { redistest.Main(m) }

type (
	bounds   = line.Bounds
	of       = line.Owners // numbers of waiters, one after another
	scenario = model.Scenario[bounds]
)

// The scenarios. One with everything in it would not end; each has what its defences are against.
var (
	handsOver = scenario{"hands over", bounds{Home: of{0, 1, 2}, Wishes: of{1, 1, 1}, Breaks: 1, Lease: 2}}
	shares    = scenario{"two of one client", bounds{Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Breaks: 1, Lease: 2}}
	again     = scenario{"the same owner again", bounds{Home: of{0, 1}, Wishes: of{2, 2}, Tries: true, Lease: 2}}
	loses     = scenario{"loses requests", bounds{Home: of{0, 1}, Wishes: of{2, 1}, Messages: 1, Faults: 1}}
	departs   = scenario{"leaves", bounds{Home: of{0, 1}, Wishes: of{2, 1}, Messages: 1, Faults: 1, Leaves: 1, Lease: 2}}
	perishes  = scenario{"dies", bounds{Home: of{0, 1, 2}, Wishes: of{1, 1, 1}, Messages: 1, Crashes: 1}}
	freezes   = scenario{"stands still", bounds{Home: of{0, 1}, Wishes: of{1, 2}, Pauses: 1}}
	waits     = scenario{"waits long", bounds{Wishes: of{1, 1, 1, 1}, Lease: 2, Place: 3, Prompt: true}}
	runs      = scenario{"runs", bounds{Home: of{0, 0, 0, 1}, Wishes: of{1, 1, 1, 1}, Lease: 2, Place: 3, Prompt: true}}
	runsLeave = scenario{"runs, and leaves", bounds{Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Leaves: 1, Lease: 2}}
	runsFail  = scenario{"runs, and loses requests", bounds{Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Messages: 1, Faults: 1,
		Lease: 2}}
	runsDie = scenario{"runs, and dies or stands still", bounds{Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Crashes: 1,
		Pauses: 1, Lease: 2}}
	runsAgain = scenario{"runs, and the same owner again", bounds{Wishes: of{1, 2, 1}, Lease: 2}}
	runsLost  = scenario{"runs, and the server forgets", bounds{Home: of{0, 0, 1}, Wishes: of{1, 1, 1}, Losses: 1,
		Lease: 2}}
	wiped = scenario{"server forgets", bounds{Home: of{0, 1}, Wishes: of{2, 1}, Losses: 1}}
)

// pair leaves two waiters of a scenario, for controls that have to see all states.
func pair(s scenario) scenario {
	s.In = s.In.Pair()
	return s
}

// short leaves two waiters of different clients one wish each with -short, where requests are lost.
func short(m bounds) bounds {
	if testing.Short() && m.Faults > 0 && m.Home == (of{0, 1}) {
		m.Wishes = of{1, 1}
	}
	return m
}

// TestFairModel: in no state that can be reached is a promise broken.
func TestFairModel(t *testing.T) {
	model.Run(t, "fair model", explore, short, handsOver, shares, again, loses, departs, perishes, freezes, waits, wiped,
		runs, runsLeave, runsFail, runsDie, runsAgain, runsLost)
}

// judge notes what a script did to whom: whatever clients believe, these things must not happen.
func (m *fair) judge(before *keys, r line.Request) {
	s, asked := &m.To, r.Asks() && m.To.owner == r.ID
	switch {
	case s.owner != 0 && (before.owner != s.owner || before.Token != s.Token): // granted
		m.JudgeToken(s.Token)
		s.claimed = !asked
		c := m.Of(s.owner)
		s.Wrong.If(s.claimed && !s.Up.Has(c) && s.owner != r.ID && !m.Present(r, c), line.ErrDeaf)
		m.JudgeOrder(&before.Queue, s.owner)
	case s.owner == 0 || asked || r.Kind == line.Renewal && s.owner == r.ID:
		s.claimed = false
	}
	s.Wrong.If(before.owner != 0 && !r.Own(before.owner) && s.owner != before.owner, model.ErrAnothers)
	if r.Kind == line.Renewal {
		return
	}
	m.JudgePlaces(&before.Queue, func(owner uint8) bool {
		return owner == s.owner || owner == r.ID && r.Frees() || r.Served.Has(owner) && !s.Waits(owner)
	})
	for _, p := range s.Queue {
		s.Wrong.If(s.owner == 0 && p.Left > 0 && s.Up.Has(m.Of(p.Owner)), line.ErrIdle)
	}
}

// judgeRun: nobody who waits stands before the one to whom a hold's run hands the lock off.
func (m *fair) judgeRun(from *line.Waiter, next uint8) {
	s := &m.To
	if s.Queue.At(next) < 0 {
		return // its place has been lost since the run began
	}
	for _, p := range s.Queue {
		if p.Owner == next {
			return
		}
		s.Wrong.If(s.Waits(p.Owner) && p.Left > 0 && s.Up.Has(m.Of(p.Owner)) && !from.Served.Has(p.Owner), line.ErrPassed)
	}
}

// Check says what is wrong with a state. Where the server's data may be lost there is a promise about tokens and waiting alone.
func (m *fair) Check(s *state) error {
	b, holders := s.Wrong, 0
	for w := range m.Waiters {
		wr := &s.Waiters[w]
		if wr.Mode != line.Has || wr.Trust == 0 || m.Losses > 0 {
			continue
		}
		holders++
		b.If(holders > 1, model.ErrTwo)
		b.If(s.owner != s.Entry(w), model.ErrCut)
		b.If(s.owner == s.Entry(w) && s.Token != wr.Token && (wr.Field == 0 || wr.Token+wr.Run.Size() > s.Token),
			model.ErrHolders)
	}
	b.If(s.claimed && s.ttl > m.Claim, line.ErrClaim)
	b.If(s.owner != 0 && (s.ttl == 0 || s.ttl > m.Lease), line.ErrEndless)
	b.If(s.owner != 0 && !m.CaredFor(&s.State, s.owner), line.ErrLeft)
	m.CheckQueue(&b, &s.State, &s.Queue, func(owner uint8) bool { return owner == s.owner })
	return model.Must.First(b, m.Only)
}

// AtRest is the goal.
func (m *fair) AtRest(s *state) bool {
	return s.owner == 0 && s.Queue[0].Owner == 0 && s.State.AtRest()
}

// TestFairModelControls: without any one of the defences there is a way to break a promise.
func TestFairModelControls(t *testing.T) {
	model.Controls(t, "fair model", explore, []model.Control[bounds]{
		{"grant: it matters whether anybody listens", line.HeedsCount, handsOver, line.ErrDeaf},
		{"grant: who cannot be reached keeps its place", line.KeepsPlace, handsOver, line.ErrLostPlace},
		{"grant: a claim has an end", line.ClaimEnds, perishes, line.ErrClaim},
		{"the same, for those behind it", line.ClaimEnds, pair(perishes), model.ErrStuck},
		{"grant: a claim is for less than a lease that nobody renews", line.ClaimIsShort, perishes, line.ErrClaim},
		{"acquire: nobody passes the head", line.AsksHead, handsOver, line.ErrPassed},
		{"acquire: who was handed the lock is told so", line.OwnGrant, loses, model.ErrItself},
		{"acquire: who has a place gets no other", line.OncePlaced, loses, line.ErrTwice},
		{"release: who leaves has no place any more", line.LeaverGone, departs, line.ErrPlaceLeft},
		{"release: what is freed is handed on", line.HandsOn, handsOver, line.ErrIdle},
		{"the same, where nobody polls either", line.HandsOn | line.PollAtAll, pair(handsOver), model.ErrStuck},
		{"release: by the owner only", freesOwn, departs, model.ErrAnothers},
		{"the same, as its victim sees it", freesOwn, departs, model.ErrCut},
		{"poll: it tells who has no place", line.TellsMissing, pair(wiped), model.ErrStuck},
		{"poll: it puts places off", line.Refreshes, waits, line.ErrLostPlace},
		{"client: it polls, also while messages come", line.PollInTime, waits, line.ErrLostPlace},
		{"client: it polls", line.PollAtAll, pair(perishes), model.ErrStuck},
		{"client: the same, for a client that was not reached", line.PollAtAll | line.NoticesBreak, pair(handsOver),
			model.ErrStuck},
		{"client: a claim is trusted from the grant on", line.GrantTime, freezes, model.ErrTwo},
		{"client: no message is trusted from before a refusal", line.OwnMessage, again, model.ErrCut},
		{"the same, with another who holds", line.OwnMessage, again, model.ErrTwo},
		{"the same, after the server lost its keys", line.OwnMessage, wiped, line.ErrPlaceLeft},
		{"client: an owner id with a straggler is not used again", line.FreshOwner | line.FreshUndo | line.Undo, departs, model.ErrCut},
		{"client: nor is one that is being given back", line.FreshUndo, departs, model.ErrCut},
		{"client: what may be left is given back", line.Undo, departs, line.ErrPlaceLeft},
		{"client: and given back again", line.UndoAgain, departs, line.ErrPlaceLeft},
		{"the same, where a straggler takes the lock", line.UndoAgain, departs, line.ErrLeft},
		{"acquire: one that comes late refuses itself", line.Lateness, departs, line.ErrPlaceLeft},
		{"the same, where it takes the lock", line.Lateness, departs, line.ErrLeft},
		{"grant: a run ends before another client's waiter", runEnds, runs, line.ErrPassed},
		{"grant: tokens are reserved for a run", runTokens, runs, model.ErrToken},
		{"release: those who were served have no place any more", servedGone, runs, line.ErrPlaceLeft},
		{"client: a run does not hand on to who has a question under way", runWaits, runsFail, line.ErrLeft},
		{"client: places are given back if a run's lock is lost", line.ServedGiven, runsLost, line.ErrPlaceLeft},
		{"client: an owner id that was served is not used again", line.ServedFresh, runsAgain, model.ErrTwo},
	})
}

// requesters are whose requests a history is made of, two of them each of two clients, and one of a third.
var requesters = []uint8{
	line.OwnerID(0, 0), line.OwnerID(0, 1), line.OwnerID(1, 0), line.OwnerID(2, 0), line.OwnerID(2, 1),
}

// history is one random history of a lock, on the model's server and on a real one.
type history struct {
	line.History
	keys
	token, queue, deadlines string
}

func begin(s *fidelity.Side, off model.Defence) fidelity.History {
	h := &history{token: s.Key("token"), queue: s.Key("queue"), deadlines: s.Key("deadlines")}
	h.History = line.History{
		Side: s, Terms: &terms{Off: off, Home: of{0, 1, 2}}, Channel: s.Key("channel"),
		Keys: []string{s.Name, h.token, h.queue, h.deadlines},
	}
	h.Clock = 1
	return h
}

// TestFairModelIsLikeTheScripts ties the model to the scripts: one that differs in a rule is told from them.
func TestFairModelIsLikeTheScripts(t *testing.T) {
	fidelity.Like(t, "fair model", fidelity.Size{Histories: 80, Short: 35, Length: 80}, begin, fidelity.Server(t), []string{
		"acquire 1", "acquire 0", "acquire again 1", "acquire again 0", "place 1", "place 0", "join 1", "join 0",
		"release 1", "release -1", "poll 1", "renew 1", "renew -1", "handed over: acquire", "handed over: place",
		"handed over: join", "handed over: release", "handed over: poll", "handed over, unheard",
		"time passes", "keys lost", "token ahead", "mailbox", "queue ends",
	}, map[string]model.Defence{
		"count of listeners": line.HeedsCount, "keeps its place": line.KeepsPlace, "asks, so is there": asksIsThere,
		"claim ends": line.ClaimEnds, "claim is short": line.ClaimIsShort, "leaver is gone": line.LeaverGone, "hands on": line.HandsOn,
		"frees its own": freesOwn, "asks for the head": line.AsksHead, "its own grant": line.OwnGrant, "one place": line.OncePlaced,
		"puts off": line.Refreshes, "tells who has none": line.TellsMissing, "ends a run": runEnds, "tokens of a run": runTokens,
		"served are gone": servedGone,
	})
}

// Step takes a random step on both sides.
func (h *history) Step() string {
	e := h.Terms
	e.Lease, e.Claim, e.Place = 2+h.Few(3), 1+h.Few(3), 2+h.Few(3)
	e.Keep = 2 * e.Lease
	owner := requesters[h.Few(len(requesters))]
	n := h.Few(75)
	if h.owner == 0 && h.Queue[0].Owner != 0 && h.Few(2) == 0 { // seldom, and then scripts hand over
		n = []uint8{0, 5, 32, 68}[h.Few(4)]
	}
	before := h.Token
	var c line.Command
	var want answer
	switch {
	case n < 25:
		c, want = h.ask(n, owner)
	case n < 32:
		c, want = h.leave(owner)
	case n < 39:
		c, want = h.look()
	case n < 44:
		want = h.renew(e, owner)
		c = line.Command{What: "renew", Values: []any{nil},
			Call: lua.Renew.Call(h.Name, h.token, h.Owner(owner), h.Millis(e.Lease), h.Millis(e.Keep))}
	case n >= 68:
		c, want = h.together(owner)
	default:
		return h.elsewise(n)
	}
	c.Status, c.Handed = want.status, h.Token != before
	if want.mail.Owner != 0 {
		c.Mail = append(c.Mail, want.mail)
	}
	c.Behind = func(m line.Mail) (next string) {
		for i := range m.Run.Size() {
			next += " h" + strconv.Itoa(int(m.Run[i]))
		}
		return next
	}
	_, branch := h.Execute(&c)
	return branch
}

// call is that of a script which has all keys of the lock, and names of owners behind the rest.
func (h *history) call(s *lua.Script, owners []uint8, args ...any) lua.Call {
	return s.Call(slices.Concat([]any{h.Name, h.token, h.queue, h.deadlines, h.Channel}, args, h.Among(owners))...)
}

// ask is an attempt to get the lock.
func (h *history) ask(n, owner uint8) (c line.Command, want answer) {
	e, again, place := h.Terms, "0", int64(0)
	switch {
	case n < 5:
		c.What = "acquire"
	case n < 10:
		c.What, again = "acquire again", "1"
	default:
		c.What, place = "place", h.Millis(e.Place)
	}
	want = h.acquire(e, owner, again == "1", place > 0)
	c.Call = h.call(lua.FairAcquire, nil, h.Owner(owner), h.Millis(e.Lease), h.Millis(e.Keep), again, place,
		h.Millis(e.Claim), "PUBLISH")
	if c.Values = []any{fidelity.Token(want.token)}; want.status == lua.Denied {
		c.Values = h.refusal(want)
	}
	return c, want
}

// refusal is what an owner is told: how long the lock is held, the server's time, nothing of Redisson's, and the holder.
func (h *history) refusal(want answer) []any {
	return []any{fidelity.Left(want.left), fidelity.Other{}, 0, h.Owner(h.owner)}
}

// leave is a release, or the end of a wait.
func (h *history) leave(owner uint8) (c line.Command, want answer) {
	e := h.Terms
	if h.owner != 0 && h.Few(2) == 0 {
		owner = h.owner
	}
	var had line.Run
	for _, other := range requesters {
		if other != owner && e.Client(other) == e.Client(owner) && h.Few(3) == 0 {
			had.Push(other)
		}
	}
	c.What, want, c.Values = "release", h.release(e, owner, had), []any{nil}
	c.Call = h.call(lua.FairRelease, had[:had.Size()], h.Owner(owner), "PUBLISH", h.Millis(e.Claim), h.Millis(e.Keep))
	return c, want
}

// look is a poll of a random client for some of its owners.
func (h *history) look() (c line.Command, want answer) {
	e, client := h.Terms, h.Few(3)
	var asked []uint8
	for _, owner := range requesters {
		if e.Client(owner) == client && h.Few(2) == 0 {
			asked = append(asked, owner)
		}
	}
	var owners line.Owners
	copy(owners[:], asked)
	c.What, want = "poll", h.poll(e, client, owners)
	c.Call = h.call(lua.FairPoll, asked, line.ClientName(client), "PUBLISH", h.Millis(e.Claim), h.Millis(e.Keep),
		h.Millis(e.Place))
	holder := ""
	if want.holder != 0 {
		holder = h.Owner(want.holder)
	}
	c.Values = []any{fidelity.Left(want.left), fidelity.Other{}, holder, "", model.Bit(want.heard), fidelity.Other{}}
	for i, owner := range asked {
		if want.missing&(1<<i) != 0 {
			c.Values = append(c.Values, h.Owner(owner))
		}
	}
	c.Values = append(c.Values, nil)
	return c, want
}

// together asks for places of all owners of a client.
func (h *history) together(owner uint8) (c line.Command, want answer) {
	e := h.Terms
	owners := slices.DeleteFunc(slices.Clone(requesters),
		func(other uint8) bool { return e.Client(other) != e.Client(owner) })
	h.Rnd.Shuffle(len(owners), func(i, j int) { owners[i], owners[j] = owners[j], owners[i] })
	c.What, want = "join", h.join(e, owners...)
	c.Call = h.call(lua.FairJoin, owners, "9000000000000000", h.Millis(e.Claim), "PUBLISH", h.Millis(e.Keep),
		h.Millis(e.Place))
	if want.status == lua.Denied {
		c.Values = h.refusal(want)
	}
	return c, want
}

// elsewise is a step that is no command of ours.
func (h *history) elsewise(n uint8) string {
	switch {
	case n == 44:
		h.keys = keys{Store: line.Store{Clock: h.Clock}}
		h.Lose(h.Keys...)
		return "keys lost"
	case n == 45 && h.Token != 0 && h.Token < 100: // as after the clock was set back
		h.Token += 100
		h.Ahead(h.token, h.Token)
		return "token ahead"
	case n < 50:
		h.Toggle(h.Few(3))
		return "mailbox"
	case n < 60 && h.Queue.Over():
		h.Queue = line.Queue{}
		h.Lose(h.queue, h.deadlines)
		return "queue ends"
	}
	h.tick()
	h.Elapse(fidelity.Key{Name: h.Name}, fidelity.Key{Name: h.token}, fidelity.Key{Name: h.deadlines})
	// The hour for which the queue outlives its places is not shortened: "queue ends" is its end.
	require.NoError(h.T, h.RDB.PExpire(h.T.Context(), h.deadlines, h.RDB.PTTL(h.T.Context(), h.queue).Val()).Err())
	return "time passes"
}

// Expected returns the keys. That the queue's have an end that is far is enough.
func (h *history) Expected() []fidelity.Key {
	queue, want := []string(nil), map[string]uint8{}
	for _, p := range model.Under(h.Queue[:]) {
		queue = append(queue, h.Owner(p.Owner))
		want[h.Owner(p.Owner)] = p.Left
	}
	have, lives := h.Places(h.deadlines, h.queue)
	maps.DeleteFunc(have, func(_ string, left uint8) bool { return left == model.Endless })
	if !maps.Equal(have, want) || len(queue) > 0 && slices.Min(lives[:]) < 45*time.Minute {
		h.Differ("the places are %v, the model's %v; the queue's keys live for %v", have, want, lives)
	}
	return []fidelity.Key{
		fidelity.KeyIf(h.owner != 0, h.Name, fidelity.Hash{h.Owner(h.owner): 1}, h.ttl),
		fidelity.KeyIf(h.Token != 0, h.token, fidelity.Token(h.Token), h.TokenTTL),
		{Name: h.queue, Value: queue, TTL: fidelity.Some},
	}
}
