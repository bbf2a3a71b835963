package fair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// tickLength is far longer than a test, and so is half of it than the hour for which a queue
// outlives its places: real time does not matter. A tick is what replay takes off.
const tickLength = 1_000_000 * time.Second

// requesters are whose requests a history is made of, two of them each of two clients, and one of a
// third.
var requesters = []uint8{line.OwnerID(0, 0), line.OwnerID(0, 1), line.OwnerID(1, 0), line.OwnerID(2, 0), line.OwnerID(2, 1)}

// replay is one random history, run on the model's keys and, by the scripts, on those of a real
// server, with real subscribers for mailboxes.
type replay struct {
	t     *testing.T
	rdb   *redis.Client
	ears  *redis.PubSub
	rnd   *rand.Rand
	model keys
	terms terms

	name, token, queue, deadlines, channel string

	real  map[uint8]int64 // what the model's tokens are at the server
	wrong string          // how the last reply, or message, differs
	steps []string        // so far, for whoever has to understand a difference
}

// TestFairModelIsLikeTheScripts ties the model to the scripts: random histories of commands, of
// time, of mailboxes that come and go and of what operators do, with every reply, every message and
// all keys compared after every step.
func TestFairModelIsLikeTheScripts(t *testing.T) {
	const histories, length = 50, 80
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number is as good
	t.Logf("seed %d", seed)
	rdb := redistest.Shared(t).Client(t)
	seen := map[string]int{}
	for h := range uint64(histories) {
		r := newReplay(t, rdb, seed+h, 0)
		for range length {
			seen[r.step()]++
			require.Empty(t, r.difference(), "history %d: %v", h, r.steps)
		}
		r.end()
	}
	t.Logf("proof: fair model: %d steps are like the scripts': %v", histories*length, seen)
	for _, branch := range []string{
		"acquire 1", "acquire 0", "acquire again 1", "acquire again 0", "place 1", "place 0", "join 1", "join 0", "release 1", "release -1",
		"poll 1", "renew 1", "renew -1", "handed over: acquire", "handed over: place", "handed over: join", "handed over: release",
		"handed over: poll",
		"handed over, unheard", "time passes", "keys lost", "token ahead", "mailbox", "queue ends",
	} {
		require.Positive(t, seen[branch], "%q was never compared", branch)
	}
}

// TestFairModelUnlikeTheScripts is the control: a model that differs in one rule is told from the
// scripts.
func TestFairModelUnlikeTheScripts(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	for what, off := range map[string]defence{
		"count of listeners": heedsCount, "keeps its place": keepsPlace, "asks, so is there": asksIsThere,
		"claim ends":     claimEnds,
		"claim is short": claimIsShort, "leaver is gone": leaverGone, "hands on": leaverHandsOn,
		"frees its own":     freesOwn,
		"asks for the head": asksHead, "its own grant": ownGrant, "one place": oncePlaced, "puts off": refreshes,
		"tells who has none": reportsMissing, "ends a run": runEnds, "tokens of a run": runTokens,
		"served are gone": servedGone,
	} {
		t.Run(what, func(t *testing.T) {
			for h := range uint64(200) {
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
		model: keys{Store: line.Store{Clock: 1}}, terms: terms{Off: off, Home: line.Owners{0, 1, 2}},
		name: name, token: "token:{" + name + "}", queue: "queue:{" + name + "}", deadlines: "deadlines:{" + name + "}",
		channel: "channel:{" + name + "}", real: map[uint8]int64{},
	}
	r.ears = rdb.Subscribe(t.Context(), r.name)
	r.subscribed("subscribe", r.name)
	return r
}

// end leaves nothing behind.
func (r *replay) end() {
	require.NoError(r.t, r.ears.Close())
	require.NoError(r.t, r.rdb.Del(r.t.Context(), r.name, r.token, r.queue, r.deadlines).Err())
}

func clientName(c uint8) string { return "client" + strconv.Itoa(int(c)) }

func (r *replay) owner(id uint8) string {
	return clientName(r.terms.Client(id)) + ":h" + strconv.Itoa(int(id))
}

// millis is a number of ticks for a script. Rounded up these are whole ticks. Of two times of equal
// ticks the later one is longer, or else it would depend on the millisecond which of them a script
// takes for the longer one.
func (r *replay) millis(ticks uint8) int64 {
	return (time.Duration(ticks)*tickLength - tickLength/2).Milliseconds() + 10*int64(len(r.steps))
}

// step takes a random step on both sides and returns what it was, with the status of its reply.
func (r *replay) step() string {
	e := &r.terms
	e.Lease, e.Claim, e.Place = 2+r.few(3), 1+r.few(3), 2+r.few(3)
	e.Keep = 2 * e.Lease
	owner := requesters[r.rnd.IntN(len(requesters))]
	keys := []any{r.name, r.token, r.queue, r.deadlines, r.channel}
	lease, keep, claim, place := r.millis(e.Lease), r.millis(e.Keep), r.millis(e.Claim), r.millis(e.Place)
	var what string
	var want answer
	var call lua.Call
	var asked []string
	before := r.model.Token
	n := r.rnd.IntN(75)
	if r.model.owner == 0 && r.model.Queue[0].Owner != 0 && r.few(2) == 0 { // seldom, and then scripts hand over
		n = []int{0, 5, 32, 68}[r.few(4)]
	}
	switch {
	case n < 5:
		what, want = "acquire", r.model.acquire(e, owner, false, false)
		call = lua.FairAcquire.Call(append(keys, r.owner(owner), lease, keep, "0", 0, claim, "PUBLISH")...)
	case n < 10:
		what, want = "acquire again", r.model.acquire(e, owner, true, false)
		call = lua.FairAcquire.Call(append(keys, r.owner(owner), lease, keep, "1", 0, claim, "PUBLISH")...)
	case n < 25:
		what, want = "place", r.model.acquire(e, owner, false, true)
		call = lua.FairAcquire.Call(append(keys, r.owner(owner), lease, keep, "0", place, claim, "PUBLISH")...)
	case n < 32:
		if r.model.owner != 0 && r.few(2) == 0 {
			owner = r.model.owner
		}
		var had line.Run
		args := slices.Concat(keys, []any{r.owner(owner), "PUBLISH", claim, keep})
		for _, other := range requesters {
			if other != owner && r.terms.Client(other) == r.terms.Client(owner) && r.few(3) == 0 {
				had.Push(other)
				args = append(args, r.owner(other))
			}
		}
		what, want = "release", r.model.release(e, owner, had)
		call = lua.FairRelease.Call(args...)
	case n < 39:
		what = "poll"
		call, asked, want = r.poll(append(keys, "", "PUBLISH", claim, keep, place))
	case n < 44:
		what, want = "renew", r.model.renew(e, owner)
		call = lua.Renew.Call(r.name, r.token, r.owner(owner), lease, keep)
	case n >= 68:
		owners := slices.DeleteFunc(slices.Clone(requesters),
			func(other uint8) bool { return r.terms.Client(other) != r.terms.Client(owner) })
		r.rnd.Shuffle(len(owners), func(i, j int) { owners[i], owners[j] = owners[j], owners[i] })
		args := slices.Concat(keys, []any{place, "9000000000000000", claim, "PUBLISH", keep})
		for _, other := range owners {
			args = append(args, r.owner(other))
		}
		what, want = "join", r.model.join(e, owners...)
		call = lua.FairJoin.Call(args...)
	default:
		what = r.elsewise(n)
		r.steps = append(r.steps, what)
		return what
	}
	got, err := lua.Run(r.t.Context(), r.rdb, call)
	require.NoError(r.t, err)
	r.steps = append(r.steps, fmt.Sprintf("%s %s, lease %d, claim %d, place %d: %d", what, r.owner(owner), e.Lease,
		e.Claim, e.Place,
		got.Status))
	r.compare(what, want, got, asked)
	switch {
	case r.model.Token != before && want.mail.Owner != 0:
		return "handed over: " + what
	case r.model.Token != before && (what == "poll" || got.Status != lua.Done):
		return "handed over, unheard"
	}
	return fmt.Sprintf("%s %d", what, got.Status)
}

func (r *replay) few(n int) uint8 { return uint8(r.rnd.IntN(n)) } //nolint:gosec // a few

// poll is one of a random client for some of its owners.
func (r *replay) poll(args []any) (lua.Call, []string, answer) {
	c, i := r.few(3), 0
	args[5] = clientName(c)
	var owners line.Owners
	var asked []string
	for _, owner := range requesters {
		if r.terms.Client(owner) == c && r.few(2) == 0 {
			owners[i], asked = owner, append(asked, r.owner(owner))
			args = append(args, r.owner(owner))
			i++
		}
	}
	return lua.FairPoll.Call(args...), asked, r.model.poll(&r.terms, c, owners)
}

// elsewise is a step that is no command of ours.
func (r *replay) elsewise(n int) string {
	ctx := r.t.Context()
	switch {
	case n == 44:
		r.model = keys{Store: line.Store{Clock: r.model.Clock}}
		require.NoError(r.t, r.rdb.Del(ctx, r.name, r.token, r.queue, r.deadlines).Err())
		return "keys lost"
	case n == 45 && r.model.Token != 0 && r.model.Token < 100: // as after the clock was set back
		r.model.Token += 100
		last, err := r.rdb.Get(ctx, r.token).Int64()
		require.NoError(r.t, err)
		last += int64(time.Hour / time.Microsecond)
		require.NoError(r.t, r.rdb.Set(ctx, r.token, last, redis.KeepTTL).Err())
		r.same(r.model.Token, last)
		return "token ahead"
	case n < 50:
		r.toggle(r.few(3))
		return "mailbox"
	case n < 60 && r.model.Queue.Over():
		r.model.Queue = line.Queue{}
		require.NoError(r.t, r.rdb.Del(ctx, r.queue, r.deadlines).Err())
		return "queue ends"
	}
	r.tick()
	return "time passes"
}

// toggle lets a client listen, or no longer.
func (r *replay) toggle(c uint8) {
	channel, kind, change := r.channel+":"+clientName(c), "subscribe", r.ears.Subscribe
	if r.terms.Up.Has(c) {
		kind, change = "unsubscribe", r.ears.Unsubscribe
	}
	require.NoError(r.t, change(r.t.Context(), channel))
	r.subscribed(kind, channel)
	r.terms.Up.Put(c, kind == "subscribe")
}

// subscribed waits for the server's word.
func (r *replay) subscribed(kind, channel string) {
	for {
		got, err := r.ears.Receive(r.t.Context())
		require.NoError(r.t, err)
		if s, ok := got.(*redis.Subscription); ok && s.Kind == kind && s.Channel == channel {
			return
		}
	}
}

// heard are the messages that were sent so far: what a server sends by one connection comes in
// order, so all of them are before one that is sent now.
func (r *replay) heard() (list []*redis.Message) {
	require.NoError(r.t, r.rdb.Publish(r.t.Context(), r.name, "end").Err())
	for {
		m, err := r.ears.ReceiveMessage(r.t.Context())
		require.NoError(r.t, err)
		if m.Channel == r.name {
			return list
		}
		list = append(list, m)
	}
}

// tick takes a tick off all times to live and all deadlines.
func (r *replay) tick() {
	ctx := r.t.Context()
	r.model.tick()
	for _, key := range []string{r.name, r.token} {
		switch left := ticksLeft(r.rdb.PTTL(ctx, key).Val()); {
		case left == 1:
			require.NoError(r.t, r.rdb.Del(ctx, key).Err())
		case left > 1 && left != model.Endless:
			require.NoError(r.t, r.rdb.PExpire(ctx, key, time.Duration(left-1)*tickLength-tickLength/2).Err())
		}
	}
	for _, owner := range r.rdb.ZRange(ctx, r.deadlines, 0, -1).Val() {
		require.NoError(r.t, r.rdb.ZIncrBy(ctx, r.deadlines, -float64(tickLength.Milliseconds()), owner).Err())
	}
	for _, key := range []string{r.queue, r.deadlines} { // the hour is not shortened: "queue ends" is its end
		if left := r.rdb.PTTL(ctx, key).Val(); left > tickLength {
			require.NoError(r.t, r.rdb.PExpire(ctx, key, left-tickLength).Err())
		}
	}
}

func ticksLeft(left time.Duration) uint8 {
	switch {
	case left == -1:
		return model.Endless
	case left < 0:
		return 0
	}
	return uint8((left + tickLength - 1) / tickLength) //nolint:gosec // a few
}

// same notes that a token of the model's is this one at the server: one for one, and in the same
// order.
func (r *replay) same(model uint8, real int64) {
	for m, other := range r.real {
		if (m == model) != (other == real) || (m < model) != (other < real) {
			r.wrong = fmt.Sprintf("token %d is %d at the server, where %d is %d", model, real, m, other)
		}
	}
	r.real[model] = real
}

func (r *replay) differ(format string, args ...any) {
	if r.wrong == "" {
		r.wrong = fmt.Sprintf(format, args...)
	}
}
