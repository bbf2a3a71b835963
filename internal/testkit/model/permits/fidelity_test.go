package permits

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// tickLength is far longer than a test: real time does not matter. A tick is what replay takes off. The
// time for which a place counts is part of the scripts, so theirs is replaced.
const (
	tickLength = 1_000_000 * time.Second
	placeTicks = 3
)

// requesters are whose requests a history is made of: three of one client, of whom one wants two
// permits, and one each of two others, of whom one wants two.
var requesters = []uint8{line.OwnerID(0, 0), line.OwnerID(0, 1), line.OwnerID(1, 0), line.OwnerID(2, 0), line.OwnerID(3, 0)}

// replay is one random history, run on the model's keys and, by the scripts, on those of a real
// server, with real subscribers for mailboxes.
type replay struct {
	t     *testing.T
	rdb   *redis.Client
	ears  *redis.PubSub
	rnd   *rand.Rand
	model keys
	terms terms

	name, permits, token, queue, places, wants, channel string

	now   int64           // the server's time of this step, ms
	real  map[uint8]int64 // what the model's tokens are at the server
	wrong string          // how the last reply, or message, differs
	steps []string        // so far, for whoever has to understand a difference
}

// server is a client of a real one, whose scripts count places in ticks.
func server(t *testing.T) *redis.Client {
	rdb := redistest.Shared(t).Client(t)
	for _, s := range []*lua.Script{lua.SemAcquire, lua.SemJoin, lua.SemPoll, lua.SemRelease, lua.SemSet} {
		rdb.AddHook(mutant.Hook(s, "local silence = 15000", fmt.Sprintf("local silence = %d", ticks(placeTicks).Milliseconds())))
	}
	return rdb
}

// TestPermitsModelIsLikeTheScripts ties the model to the scripts: random histories of commands, of
// time, of mailboxes that come and go, of clients of Redisson and of what operators do, with every
// reply, every message and all keys compared after every step.
func TestPermitsModelIsLikeTheScripts(t *testing.T) {
	const least, most, length = 50, 1000, 80
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number is as good
	t.Logf("seed %d", seed)
	rdb := server(t)
	seen := map[string]int{}
	steps := 0
	for h := uint64(0); h < least || h < most && !all(seen); h++ {
		r := newReplay(t, rdb, seed+h, 0)
		for range length {
			seen[r.step()]++
			steps++
			require.Empty(t, r.difference(), "history %d: %v", h, r.steps)
		}
		r.end()
	}
	t.Logf("proof: permits model: %d steps are like the scripts': %v", steps, seen)
	for _, branch := range branches {
		require.Positive(t, seen[branch], "%q was never compared", branch)
	}
}

// branches are what histories have to compare.
var branches = []string{
	"acquire 1", "acquire 0", "acquire 100", "acquire again 1", "acquire again 0", "place 1", "place 0", "place 100", "join 1", "join 0",
	"release 1", "release -1", "poll 1", "renew 1", "renew -1", "set 1", "handed over: acquire", "handed over: place",
	"handed over: join", "handed over: release", "handed over: poll", "handed over: set", "handed over, unheard", "not so many",
	"Redisson takes", "Redisson is refused", "Redisson takes back", "Redisson gives", "time passes", "keys lost", "token ahead",
	"mailbox", "queue ends",
}

// all reports whether all branches have been seen.
func all(seen map[string]int) bool {
	return !slices.ContainsFunc(branches, func(branch string) bool { return seen[branch] == 0 })
}

// TestPermitsModelUnlikeTheScripts is the control: a model that differs in one rule is told from the
// scripts.
func TestPermitsModelUnlikeTheScripts(t *testing.T) {
	rdb := server(t)
	for what, off := range map[string]defence{
		"looks what is free": looksFree, "hands out what is free": handsFree, "in order": inOrder, "its own grant": ownGrant,
		"takes its own": takesOwn, "counts what is new": countsNew, "counts all": countsAll, "counts none that are gone": countsGone,
		"counts ended": countsEnded, "sets all": setsAll, "renews its own": renewsOwn, "asks for the head": asksHead, "hands the rest": handsRest,
		"only so many": onlySoMany, "many are dropped": manyDropped, "and told": manyTold, "count of listeners": heedsCount,
		"keeps its place": keepsPlace, "claim is short": claimIsShort, "claim ends": claimEnds, "silent ones are passed": silentPassed,
		"sweeps first": sweepsFirst, "leaver is gone": leaverGone, "hands on": handsOn, "one place": oncePlaced, "puts off": refreshes,
		"tells who has none": tellsMissing, "tells what was handed": tellsGiven, "new tokens": newTokens,
	} {
		t.Run(what, func(t *testing.T) {
			for h := range uint64(400) {
				if newReplay(t, rdb, h, off).differs(80) {
					return
				}
			}
			t.Error("no difference was found")
		})
	}
}

func (r *replay) differs(length int) bool {
	defer r.end()
	for range length {
		r.step()
		if r.difference() != "" {
			return true
		}
	}
	return false
}

func newReplay(t *testing.T, rdb *redis.Client, seed uint64, off defence) *replay {
	name := t.Name() + strconv.FormatUint(seed, 36)
	r := &replay{
		t: t, rdb: rdb, rnd: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // for tests
		model: keys{Store: line.Store{Clock: 1}},
		terms: terms{Terms: line.Terms{Off: off, Home: of{0, 1, 2, 0}, Place: placeTicks}, want: of{1, 2, 1, 2}},
		name:  name, permits: "permits:{" + name + "}", token: "token:{" + name + "}", queue: "queue:{" + name + "}",
		places: "places:{" + name + "}", wants: "wants:{" + name + "}", channel: "channel:{" + name + "}", real: map[uint8]int64{},
	}
	r.ears = rdb.Subscribe(t.Context(), r.name, r.channel)
	r.subscribed("subscribe", r.name)
	r.subscribed("subscribe", r.channel)
	for c := range uint8(3) {
		if r.few(4) > 0 {
			r.toggle(c)
		}
	}
	return r
}

func (r *replay) keys() []string {
	return []string{r.name, r.permits, r.token, r.queue, r.places, r.wants}
}

// end leaves nothing behind.
func (r *replay) end() {
	require.NoError(r.t, r.ears.Close())
	require.NoError(r.t, r.rdb.Del(r.t.Context(), r.keys()...).Err())
}

func clientName(c uint8) string { return "client" + strconv.Itoa(int(c)) }

func (r *replay) owner(id uint8) string {
	if id == foreigner {
		return "a permit of Redisson's"
	}
	return clientName(r.terms.Client(id)) + ":h" + strconv.Itoa(int(id))
}

// ticks is a time that is a number of ticks when it is rounded up, now and for a while.
func ticks(n uint8) time.Duration { return time.Duration(n)*tickLength - tickLength/2 }

// millis is a number of ticks for a script. Of two times of equal ticks the later one is longer, or
// else it would depend on the millisecond which of them a script takes for the longer one.
func (r *replay) millis(n uint8) int64 { return ticks(n).Milliseconds() + 10*int64(len(r.steps)) }

func (r *replay) few(n int) uint8 { return uint8(r.rnd.IntN(n)) } //nolint:gosec // a few

// step takes a random step on both sides and returns what it was, with the status of its reply.
func (r *replay) step() string {
	r.age(time.Millisecond) // so that no two steps are of one millisecond
	e := &r.terms
	e.permits, e.Lease, e.Claim = 1+r.few(3), 2+r.few(3), 1+r.few(3)
	e.Keep = 2 * e.Lease
	owner := r.whose()
	lease, keep, claim, place := r.millis(e.Lease), r.millis(e.Keep), r.millis(e.Claim), ticks(placeTicks).Milliseconds()
	call := func(s *lua.Script, args ...any) lua.Call {
		return s.Call(slices.Concat([]any{r.name, r.permits, r.token, r.queue, r.places, r.wants, r.channel, int(e.permits)}, args)...)
	}
	ask := func(again string, place int64) lua.Call {
		return call(lua.SemAcquire, r.owner(owner), int(e.wants(owner)), lease, keep, again, place, claim, "PUBLISH", "9000000000000000")
	}
	var what string
	var want answer
	var sent lua.Call
	var asked []string
	before := r.model.Token
	switch n := r.choice(); {
	case n < 6:
		what, want, sent = "acquire", r.model.acquire(e, owner, false, false), ask("0", 0)
	case n < 11:
		what, want, sent = "acquire again", r.model.acquire(e, owner, true, false), ask("1", 0)
	case n < 25:
		what, want, sent = "place", r.model.acquire(e, owner, false, true), ask("0", place)
	case n < 33:
		if had := r.model.out[r.few(3)].owner; had != 0 && had != foreigner && r.few(2) == 0 {
			owner = had
		}
		what, want, sent = "release", r.model.release(e, owner), call(lua.SemRelease, r.owner(owner), "PUBLISH", claim, keep)
	case n < 40:
		c := r.few(3)
		owners, texts := r.some(c, 2)
		asked = texts
		what, want = "poll", r.model.poll(e, c, owners)
		sent = call(lua.SemPoll, behind(texts, clientName(c), "PUBLISH", claim, keep, place)...)
	case n < 45:
		what, want = "renew", r.model.renew(e, owner)
		sent = lua.SemRenew.Call(r.name, r.permits, r.token, int(e.permits), r.owner(owner), lease, keep, int(e.wants(owner)))
	case n < 51:
		owners, texts := r.some(2*r.few(2), 1)
		if len(texts) == 0 {
			owners[0], texts = requesters[0], []string{r.owner(requesters[0])}
		}
		what, want = "join", r.model.join(e, owners)
		sent = call(lua.SemJoin, behind(texts, place, "9000000000000000", claim, "PUBLISH", keep)...)
	case n < 54:
		what, want, sent = "set", r.model.set(e, e.permits), call(lua.SemSet, "PUBLISH", claim, keep, "9000000000000000",
			"set "+strconv.Itoa(len(r.steps)), 0)
	default:
		what = r.elsewise(n)
		r.steps = append(r.steps, what)
		return what
	}
	got, err := lua.Run(r.t.Context(), r.rdb, sent)
	if lua.IsError(err, "HOLDFAST_PERMITS") {
		got, err = lua.Reply{Status: line.Excess}, nil
	}
	require.NoError(r.t, err)
	r.steps = append(r.steps, fmt.Sprintf("%s %s, lease %d, claim %d: %d", what, r.owner(owner), e.Lease, e.Claim, got.Status))
	r.compare(what, want, got, asked)
	for _, told := range want.mail[:want.mails] {
		if told.Token == 0 {
			return "not so many"
		}
	}
	switch {
	case want.mails > 0:
		return "handed over: " + strings.TrimSuffix(what, " again")
	case r.model.Token != before && want.status != lua.Done || what == "poll" && want.granted > 0:
		return "handed over, unheard"
	}
	return fmt.Sprintf("%s %d", what, got.Status)
}

// choice is the number of a step: any, but mostly those that are seldom of use where they are.
func (r *replay) choice() int {
	n := r.rnd.IntN(76)
	ended := false
	for _, p := range r.model.out {
		ended = ended || p.n > 0 && p.left == 0
	}
	waits := r.model.Queue[0].Owner != 0
	switch {
	case r.few(2) == 0:
	case r.model.Queue.Over():
		return 66
	case ended && r.few(3) == 0:
		return []int{0, 59, 59}[r.few(3)]
	case waits && (ended || r.model.free > 0): // scripts hand out
		return []int{0, 0, 0, 6, 6, 11, 11, 33, 33, 45, 51}[r.few(11)]
	case waits && r.few(8) == 0: // their number is set, and may not be enough for who waits
		return 51
	case waits && r.few(3) == 0: // permits come back, and nobody is told
		return []int{59, 70}[r.few(2)]
	}
	return n
}

// whose request a step is: anybody's, but often that of somebody whose lease has ended.
func (r *replay) whose() uint8 {
	for _, p := range r.model.out {
		if p.n > 0 && p.left == 0 && p.owner != foreigner && r.few(2) == 0 {
			return p.owner
		}
	}
	return requesters[r.rnd.IntN(len(requesters))]
}

// behind are some arguments, and owners behind them.
func behind(owners []string, args ...any) []any {
	for _, owner := range owners {
		args = append(args, owner)
	}
	return args
}

// some are a random few of the owners of a client who want so many permits at most, in a random order.
func (r *replay) some(c, most uint8) (owners line.Owners, texts []string) {
	list := slices.Clone(requesters)
	r.rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, owner := range list {
		if r.terms.Client(owner) == c && r.terms.wants(owner) <= most && r.few(2) == 0 {
			owners[len(texts)], texts = owner, append(texts, r.owner(owner))
		}
	}
	return owners, texts
}
