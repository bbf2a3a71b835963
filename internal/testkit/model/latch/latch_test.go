package latch

import (
	"cmp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/fidelity"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// latching is the model. Time goes in ticks.
type latching struct {
	count    uint8             // that is set
	stays    [maxClients]uint8 // ticks that a latch stays without a word, by client
	rest     uint8             // ticks after which a gate looks without a reason; 0: that is left out
	wishes   [maxClients]uint8 // calls of a client
	waiters  [maxWaiters]uint8 // waits of a waiter
	faults   uint8             // answers that do not come in time
	crashes  uint8
	breaks   uint8 // of the connection for messages
	leaves   uint8 // waiters who give up
	other    uint8 // calls of an undisturbed client
	redisson uint8
	untold   uint8 // deletions of which nobody is told
	off      model.Defence
	only     error // look for this violation alone
	cut      int   // requests for which the bounds had no room
}

func (m *latching) start() state {
	s := state{faults: m.faults, crashes: m.crashes, breaks: m.breaks, leaves: m.leaves, other: m.other,
		redisson: m.redisson, untold: m.untold}
	for c := range s.clients {
		s.clients[c].wishes = m.wishes[c]
	}
	for i := range s.waiters {
		s.waiters[i].wishes = m.waiters[i]
	}
	return s
}

// explore also looks whether waiters of an open latch get in from everywhere, by their client's and connection's steps alone.
func (m latching) explore(off model.Defence, only error) (model.Report, error) {
	m.off, m.only, m.rest = off, only, cmp.Or(m.rest, model.Endless)
	explored := model.Model[state]{
		Start: m.start(), Next: m.next, Settle: m.settle, Check: m.check, Only: only, Cut: &m.cut,
	}
	if m.anyWaiter() {
		explored.Goal = m.served
	}
	return model.Explore(explored)
}

// one leaves a scenario one waiter, or one call of one client, for controls that have to see all or many states.
func one(s scenario) scenario {
	if s.In.anyWaiter() {
		s.In.waiters = each{1, 0}
	}
	if s.In.wishes != (each{}) {
		s.In.wishes = each{1, 0}
	}
	return s
}

func (m *latching) anyWaiter() bool { return m.waiters != [maxWaiters]uint8{} }

// Ticks for which a request may be under way, and for which a call is repeated.
const limit, budget = 1, 1

type (
	each     = [maxClients]uint8
	scenario = model.Scenario[latching]
)

// The scenarios. One with everything in it would not end; each has what its defences are against.
var (
	repeats = scenario{"repeats", latching{count: 2, stays: each{4, 4}, wishes: each{1, 2}, faults: 2, other: 1}}
	calls   = scenario{"calls", latching{count: 1, stays: each{3, 3}, wishes: each{2, 1}, faults: 1, other: 2}}
	dies    = scenario{"dies", latching{count: 1, stays: each{3, 3}, wishes: each{2, 2}, faults: 1, crashes: 1}}
	stays   = scenario{"stays", latching{count: 3, stays: each{4, 2}, wishes: each{2, 2}, redisson: 2}}
	waits   = scenario{"waits", latching{count: 1, stays: each{3, 3}, waiters: each{2, 2}, other: 4, leaves: 1}}
	breaks  = scenario{"breaks", latching{count: 1, stays: each{3, 3}, waiters: each{2, 1}, other: 4, breaks: 2,
		faults: 1}}
	shared = scenario{"with Redisson", latching{count: 2, stays: each{3, 3}, waiters: each{2, 1}, other: 2, redisson: 3,
		breaks: 1}}
	untold = scenario{"untold", latching{count: 1, stays: each{6, 6}, rest: 2, waiters: each{1, 1}, other: 1,
		redisson: 2, untold: 1, breaks: 1}}
	both = scenario{"waits for repeats", latching{count: 1, stays: each{2, 2}, wishes: each{1, 1}, faults: 1,
		waiters: each{1, 0}, other: 1}}
)

// large are the bounds of this level: a longer look by model.Large; with -short fewer calls where their orders are the most.
func large(m latching) latching {
	if testing.Short() && m.wishes != (each{}) && m.faults > 0 {
		m.wishes, m.other, m.count = each{1, 1}, m.other-min(m.other, 1), 1
	}
	if testing.Short() && m.anyWaiter() {
		m.redisson, m.waiters[0] = min(m.redisson, 2), 1
	}
	if !model.Large() {
		return m
	}
	switch {
	case m.wishes == (each{}):
		m.other, m.breaks = m.other+1, 2*m.breaks
	case m.anyWaiter():
		m.stays = each{3, 3}
	case m.crashes > 0:
		m.faults++
	default:
		m.other++
	}
	return m
}

// TestLatchModel: in no state that can be reached is a promise broken.
func TestLatchModel(t *testing.T) {
	model.Run(t, "latch model", latching.explore, large, repeats, calls, dies, stays, waits, breaks, shared, untold, both)
}

// What must never be.
var (
	errTwice  = model.Must.Never("a call has done twice what it does")
	errAfter  = model.Must.Never("a call that has returned does something")
	errSaid   = model.Must.Never("a caller was told what is not so")
	errMissed = model.Must.Never("a count-down was not counted")
	errOver   = model.Must.Never("a latch that was set was set again")
	errSooner = model.Must.Never("a latch has ended sooner than the last word on it said")
	errEarly  = model.Must.Never("a waiter was let in, and no moment was without a latch since it came")
	errGiven  = model.Must.Never("a latch of Redisson's was given an end")
)

func (m *latching) check(s *state) error {
	broken := s.wrong
	broken.If(s.count > 0 && !s.foreign && (s.ttl == 0 || s.ttl == model.Endless), model.ErrEndless)
	broken.If(s.count > 0 && s.foreign && s.ttl != model.Endless, errGiven)
	return model.Must.First(broken, m.only)
}

// judgeEffect: a set begins a latch and does not replace one, and each word lengthens its life.
func (s *state) judgeEffect(before *keys, kind, stay uint8) {
	s.wrong.If(kind == set && before.count > 0, errOver)
	switch {
	case s.count == 0:
	case s.foreign:
		s.due = model.Endless
	default:
		s.due = max(s.due, stay)
	}
}

// judgeAnswer: what the caller is told is so.
func (s *state) judgeAnswer(c int) {
	cl := &s.clients[c]
	f := s.fates[cl.op.call]
	counts := cl.op.kind == count
	s.wrong.If(counts && f.effects == 0 && !f.idle, errMissed)
	s.wrong.If(!counts && (cl.said == 1) != (f.effects > 0), errSaid)
	s.wrong.If(counts && cl.said != f.left, errSaid) // 0 where it found nothing to do
}

// served is the goal: nobody waits while no latch is set. Quiet are the steps of gate and connection, not of other callers.
func (m *latching) served(s *state) bool { return s.count > 0 || !s.anybody() }

// TestLatchModelControls: without any one of the defences there is a way to break a promise.
func TestLatchModelControls(t *testing.T) {
	model.Controls(t, "latch model", latching.explore, []model.Control[latching]{
		{"count: a repeat counts nothing", countOnce, repeats, errTwice},
		{"the same, where the latch was set anew", countOnce, calls, errTwice},
		{"count: and gets the reply of the first", sameAnswer, repeats, errSaid},
		{"set: a repeat gets the reply of the first", setAgain, calls, errSaid},
		{"delete: a repeat takes nothing away that was set since", deleteAgain, calls, errTwice},
		{"a call that found nothing to do is remembered too", idleKept, calls, errAfter},
		{"the same, as its caller sees it", idleKept, calls, errSaid},
		{"calls are remembered for as long as repeats may come", keptLong, repeats, errTwice},
		{"one that comes later refuses itself", lateness, one(repeats), errTwice},
		{"the same, where its caller has gone on", lateness, one(calls), errAfter},
		{"each call has an id of its own", freshCall, repeats, errMissed},
		{"set: a latch that is set is left as it is", setOnce, calls, errOver},
		{"set: a latch has an end", staySet, stays, model.ErrEndless},
		{"count: which is put off", stayCount, stays, errSooner},
		{"count: and never brought nearer", stayLonger, stays, errSooner},
		{"count: one of Redisson's has none, and gets none", stayForeign, stays, errGiven},
		{"count: the last one is announced", tellsZero, one(waits), model.ErrStuck},
		{"delete: it is announced", tellsDelete, one(waits), model.ErrStuck},
		{"gate: a message makes it look", hears, one(waits), model.ErrStuck},
		{"gate: it looks when it listens", looksFirst, one(waits), model.ErrStuck},
		{"gate: and when it listens again", looksAgain, one(breaks), model.ErrStuck},
		{"gate: and when the latch would have ended", looksEnd, one(waits), model.ErrStuck},
		{"gate: and every half minute", looksRest, one(untold), model.ErrStuck},
		{"gate: and for those who join", kicks, waits, model.ErrStuck},
		{"gate: a look that was begun before says nothing to those", ownLook, waits, errEarly},
	})
}

// history is one random history of a latch on both sides. Calls are remembered for an hour, more than the ticks needed.
type history struct {
	*fidelity.Side
	keys
	off model.Defence
}

func begin(s *fidelity.Side, off model.Defence) fidelity.History {
	h := &history{Side: s, off: off}
	h.Listen(true, h.channel())
	return h
}

// TestLatchModelIsLikeTheScripts ties the model to the scripts: calls, repeats, time and Redisson; each rule matters.
func TestLatchModelIsLikeTheScripts(t *testing.T) {
	size := fidelity.Size{Histories: 60, Short: 25, Length: 60}
	fidelity.Like(t, "latch model", size, begin, fidelity.Server(t), []string{
		"set 1", "set 0", "count", "count, told", "count idle", "delete 1", "delete 0", "repeat of set", "repeat of count",
		"repeat of delete", "late", "look", "time passes", "Redisson counts", "Redisson sets", "Redisson deletes",
	}, map[string]model.Defence{
		"counts again": countOnce, "says what is left now": sameAnswer, "sets again": setAgain, "deletes again": deleteAgain, "only what did something": idleKept,
		"not for long": keptLong, "late": lateness, "set over": setOnce, "no message at zero": tellsZero,
		"no message of a deletion": tellsDelete, "no end": staySet, "not put off": stayCount, "brought nearer": stayLonger,
		"an end for Redisson's": stayForeign,
	})
}

func (h *history) channel() string { return "redisson_countdownlatch__channel__{" + h.Name + "}" }

func (h *history) call(id uint8) string {
	return h.Key("holdfast_latch") + ":a:h" + strconv.Itoa(int(id))
}

// Step takes a random step on both sides.
func (h *history) Step() string {
	ctx := h.T.Context()
	switch n := h.Few(20); {
	case n < 13:
		return h.request()
	case n == 13:
		h.Run("look", lua.LatchLook.Call(h.Name, h.Key("holdfast_latch")), lua.Done, int(h.count), fidelity.Left(h.ttl))
		return "look"
	case n == 14:
		told := h.redissonCounts()
		if h.RDB.Decr(ctx, h.Name).Val() <= 0 {
			h.Lose(h.Name)
		}
		if told {
			require.NoError(h.T, h.RDB.Publish(ctx, h.channel(), "0").Err())
		}
		h.HearIf(told, "Redisson", h.channel(), "0")
		return "Redisson counts"
	case n == 15 && h.count == 0:
		h.count, h.ttl = 2, model.Endless
		require.NoError(h.T, h.RDB.Set(ctx, h.Name, 2, 0).Err())
		return "Redisson sets"
	case n == 15 && h.Few(3) == 0:
		h.count, h.ttl = 0, 0
		h.Lose(h.Name)
		return "Redisson deletes"
	}
	h.tick()
	h.Elapse(h.Expected()...)
	return "time passes"
}

// request is one attempt of a call: of one that is known, or of another.
func (h *history) request() string {
	t := terms{off: h.off, limit: 1, more: 2, count: 1 + h.Few(3), stay: 2 + h.Few(3)}
	q := request{kind: set + h.Few(3), id: h.Few(maxCalls), age: h.Few(3)}
	known, stood := h.calls[q.id].left > 0, h.keys.count > 0
	if known && h.Few(2) == 0 { // seldom the same kind; to the server that makes no difference but in the reply
		h.calls[q.id] = memory{}
		h.Lose(h.call(q.id))
		known = false
	}
	limit := h.RDB.Time(h.T.Context()).Val().Add(time.Duration(int(t.limit)-int(q.age)) * fidelity.Tick)
	if q.age == t.limit {
		limit = limit.Add(fidelity.Tick / 10) // it is still in time, and adds less than a tick
	}
	script := map[uint8]*lua.Script{set: lua.LatchSet, count: lua.LatchCount, remove: lua.LatchDelete}[q.kind]
	name := [kinds]string{set: "set", count: "count", remove: "delete"}[q.kind]
	call := script.Call(h.Name, h.call(q.id), h.Key("holdfast_latch"), t.count, h.Millis(t.stay), limit.UnixMicro(), h.Millis(t.more), "PUBLISH",
		h.channel())
	want := h.run(&t, q)
	if want.status == lua.Late {
		h.Run(name, call, want.status)
	} else {
		h.Run(name, call, want.status, int(want.n))
	}
	text := "0"
	if q.kind == set {
		text = "1"
	}
	h.HearIf(want.told, name, h.channel(), text)
	switch {
	case want.status == lua.Late:
		return "late"
	case known:
		return "repeat of " + name
	case q.kind != count:
		return name + " " + strconv.Itoa(int(want.n))
	case !stood:
		return "count idle"
	case want.told:
		return "count, told"
	}
	return "count"
}

// Expected returns the keys of the latch, and of its calls.
func (h *history) Expected() []fidelity.Key {
	list := []fidelity.Key{fidelity.KeyIf(h.count > 0, h.Name, int(h.count), h.ttl)}
	for id, c := range h.calls {
		list = append(list, fidelity.KeyIf(c.left > 0, h.call(uint8(id)), int(c.said), c.left)) //nolint:gosec // few
	}
	return list
}
