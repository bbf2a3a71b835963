package permits

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/fidelity"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
)

// placeTicks is how long a place counts. That is a part of the scripts, so theirs is replaced.
const placeTicks = 3

// requesters are whose requests a history is made of: three of one client, of whom one wants two
// permits, and one each of two others, of whom one wants two.
var requesters = []uint8{
	line.OwnerID(0, 0), line.OwnerID(0, 1), line.OwnerID(1, 0), line.OwnerID(2, 0), line.OwnerID(3, 0),
}

// history is one random history of a semaphore, on the model's server and on a real one.
type history struct {
	line.History
	keys
	terms                                terms
	permits, token, queue, places, wants string
	now                                  int64 // the server's time of this step, ms
	steps                                int
}

func begin(s *fidelity.Side, off model.Defence) fidelity.History {
	h := &history{
		terms:   terms{Terms: line.Terms{Off: off, Home: of{0, 1, 2, 0}, Place: placeTicks}, want: of{1, 2, 1, 2}},
		permits: s.Key("permits"), token: s.Key("token"), queue: s.Key("queue"), places: s.Key("places"), wants: s.Key("wants"),
	}
	h.History = line.History{
		Side: s, Terms: &h.terms.Terms, Channel: s.Key("channel"),
		Keys: []string{s.Name, h.permits, h.token, h.queue, h.places, h.wants},
	}
	h.Clock = 1
	h.Listen(true, h.Channel)
	for c := range uint8(3) {
		if h.Few(4) > 0 {
			h.Toggle(c)
		}
	}
	return h
}

// server is a client of a real one, whose scripts count places in ticks.
func server(t *testing.T) *redis.Client {
	rdb := fidelity.Server(t)
	for _, s := range []*lua.Script{lua.SemAcquire, lua.SemJoin, lua.SemPoll, lua.SemRelease, lua.SemSet} {
		rdb.AddHook(mutant.Hook(s, "local silence = 15000", fmt.Sprintf("local silence = %d", placeMillis)))
	}
	return rdb
}

// placeMillis is a time that is so many ticks when it is rounded up, now and for a while.
var placeMillis = (placeTicks*fidelity.Tick - fidelity.Tick/2).Milliseconds()

// TestPermitsModelIsLikeTheScripts ties the model to the scripts: one that differs in a rule is told from them.
func TestPermitsModelIsLikeTheScripts(t *testing.T) {
	fidelity.Like(t, "permits model", fidelity.Size{Histories: 100, Length: 80}, begin, server(t), []string{
		"acquire 1", "acquire 0", "acquire 100", "acquire again 1", "acquire again 0", "place 1", "place 0", "place 100", "join 1", "join 0",
		"release 1", "release -1", "poll 1", "renew 1", "renew -1", "set 1", "handed over: acquire", "handed over: place",
		"handed over: join", "handed over: release", "handed over: poll", "handed over: set", "handed over, unheard", "not so many",
		"Redisson takes", "Redisson is refused", "Redisson takes back", "Redisson gives", "time passes", "keys lost", "token ahead",
		"mailbox", "queue ends",
	}, map[string]model.Defence{
		"looks what is free": looksFree, "hands out what is free": handsFree, "in order": inOrder, "its own grant": line.OwnGrant,
		"takes its own": takesOwn, "counts what is new": countsNew, "counts all": countsAll, "counts none that are gone": countsGone,
		"counts ended": countsEnded, "sets all": setsAll, "renews its own": renewsOwn, "asks for the head": line.AsksHead, "hands the rest": handsRest,
		"only so many": onlySoMany, "many are dropped": manyDropped, "and told": manyTold, "count of listeners": line.HeedsCount,
		"keeps its place": line.KeepsPlace, "claim is short": line.ClaimIsShort, "claim ends": line.ClaimEnds, "silent ones are passed": silentPassed,
		"sweeps first": sweepsFirst, "leaver is gone": line.LeaverGone, "hands on": line.HandsOn, "one place": line.OncePlaced, "puts off": line.Refreshes,
		"tells who has none": line.TellsMissing, "tells what was handed": tellsGiven, "new tokens": newTokens,
	})
}

// owner is the name of one.
func (h *history) owner(id uint8) string {
	if id == foreigner {
		return "a permit of Redisson's"
	}
	return h.Owner(id)
}

// Step takes a random step on both sides.
func (h *history) Step() string {
	h.age(time.Millisecond) // so that no two steps are of one millisecond
	h.steps++
	e := &h.terms
	e.permits, e.Lease, e.Claim, e.fresh = 1+int8(h.Few(3)), 2+h.Few(3), 1+h.Few(3), 0 //nolint:gosec // a few
	e.Keep = 2 * e.Lease
	owner, n := h.whose(), h.choice()
	if n >= 54 {
		return h.elsewise(n)
	}
	before := h.Token
	c, want, asked := h.command(n, owner)
	switch {
	case want.status == lua.Denied:
		c.Values = []any{h.left(want.left), fidelity.Other{}, 0}
	case want.token != 0:
		c.Values = []any{fidelity.Token(want.token)}
	}
	c.Status, c.Mail, c.Handed = want.status, want.mail[:want.mails], h.Token != before
	if want.others > 0 {
		c.Others = []string{strconv.Itoa(int(want.others))}
	}
	c.Behind = func(m line.Mail) string {
		if n := e.wants(m.Owner); n > 1 {
			return " " + strconv.Itoa(int(n))
		}
		return ""
	}
	got, branch := h.Execute(&c)
	switch {
	case got.Status == lua.Denied:
		who, _ := got.Value(3).(string)
		h.compareWho(c.What, want.left, who)
	case c.What == "poll":
		h.comparePoll(&want, got, asked)
	}
	return branch
}

// call is that of a script which has all keys of the semaphore, and names of owners behind the rest.
func (h *history) call(s *lua.Script, owners []uint8, args ...any) lua.Call {
	all := []any{h.Name, h.permits, h.token, h.queue, h.places, h.wants, h.Channel, h.Key("counts"),
		int(h.terms.permits)}
	return s.Call(slices.Concat(all, args, h.Among(owners))...)
}

const never = "9000000000000000" // as the time until which something may be executed

// command is one of ours. asked are the owners of a poll.
func (h *history) command(n int, owner uint8) (c line.Command, want answer, asked []uint8) {
	e, lease, claim, keep := &h.terms, h.Millis(h.Lease), h.Millis(h.Claim), h.Millis(h.Keep)
	ask := func(what, again string, place int64) {
		c.What, want = what, h.acquire(e, owner, again == "1", place > 0)
		c.Call = h.call(lua.SemAcquire, nil, h.Owner(owner), int(e.wants(owner)), lease, keep, again, place, claim, "PUBLISH", never)
	}
	switch {
	case n < 6:
		ask("acquire", "0", 0)
	case n < 11:
		ask("acquire again", "1", 0)
	case n < 25:
		ask("place", "0", placeMillis)
	case n < 33:
		if had := h.out[h.Few(3)].owner; had != 0 && had != foreigner && h.Few(2) == 0 {
			owner = had
		}
		c.What, want, c.Values = "release", h.release(e, owner), []any{nil}
		c.Call = h.call(lua.SemRelease, nil, h.Owner(owner), "PUBLISH", claim, keep)
	case n < 40:
		client := h.Few(3)
		asked = h.some(client, 2)
		c.What, want = "poll", h.poll(e, client, filled(asked))
		c.Call = h.call(lua.SemPoll, asked, line.ClientName(client), "PUBLISH", claim, keep, placeMillis)
	case n < 45:
		c.What, want, c.Values = "renew", h.renew(e, owner), []any{nil}
		c.Call = lua.SemRenew.Call(h.Name, h.permits, h.token, int(e.permits), h.Owner(owner), lease, keep, int(e.wants(owner)))
	case n < 51:
		if asked = h.some(2*h.Few(2), 1); len(asked) == 0 {
			asked = requesters[:1]
		}
		c.What, want = "join", h.join(e, filled(asked))
		c.Call = h.call(lua.SemJoin, asked, placeMillis, never, claim, "PUBLISH", keep)
	default:
		c.What, want, c.Values = "set", h.set(e, e.permits), []any{nil}
		c.Call = h.call(lua.SemSet, nil, "PUBLISH", claim, keep, never, "set "+strconv.Itoa(h.steps), 0)
	}
	return c, want, asked
}

// choice is the number of a step: any, but mostly those that are seldom of use where they are.
func (h *history) choice() int {
	n := h.Rnd.IntN(76)
	ended := false
	for _, p := range h.out {
		ended = ended || p.n > 0 && p.left == 0
	}
	waits := h.Queue[0].Owner != 0
	switch {
	case h.Few(2) == 0:
	case h.Queue.Over():
		return 66
	case ended && h.Few(3) == 0:
		return []int{0, 59, 59}[h.Few(3)]
	case waits && (ended || h.free > 0): // scripts hand out
		return []int{0, 0, 0, 6, 6, 11, 11, 33, 33, 33, 45, 51}[h.Few(12)]
	case waits && h.Few(8) == 0: // their number is set, and may not be enough for who waits
		return 51
	case waits && h.Few(3) == 0: // permits come back, and nobody is told
		return []int{59, 70}[h.Few(2)]
	}
	return n
}

// whose request a step is: anybody's, but often that of somebody whose lease has ended.
func (h *history) whose() uint8 {
	for _, p := range h.out {
		if p.n > 0 && p.left == 0 && p.owner != foreigner && h.Few(2) == 0 {
			return p.owner
		}
	}
	return requesters[h.Rnd.IntN(len(requesters))]
}

// some are a random few of the owners of a client who want so many permits at most, in a random order.
func (h *history) some(c uint8, most int8) (some []uint8) {
	list := slices.Clone(requesters)
	h.Rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, owner := range list {
		if h.Client(owner) == c && h.terms.wants(owner) <= most && h.Few(2) == 0 {
			some = append(some, owner)
		}
	}
	return some
}

// filled are owners with zeros behind them.
func filled(some []uint8) (owners line.Owners) {
	copy(owners[:], some)
	return owners
}
