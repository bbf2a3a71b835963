package election

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// tickLength is far longer than a test, so that real time does not matter: a tick is what replay
// takes off.
const tickLength = 1000 * time.Second

// placeLasts is for how long a place of the queue counts: for longer than all ticks of a history, since
// places that end are the affair of package fair.
const placeLasts = 1000 * 1000 * time.Second

// replay is one random history, run on the model's keys and, by the scripts, on those of a real
// server, with real subscribers for mailboxes and for an observer.
type replay struct {
	t     *testing.T
	rdb   *redis.Client
	ears  *redis.PubSub
	rnd   *rand.Rand
	model keys
	terms terms
	gens  [maxCandidates]uint8
	name  string
	real  map[uint8]int64 // what the model's tokens are at the server
	wrong string          // how the last reply, or message, differs
	steps []string        // so far, for whoever has to understand a difference
}

// TestElectionModelIsLikeTheScripts ties the model to the scripts: random histories of commands, late
// ones too, of time, of mailboxes that come and go and of what operators do, with every reply, every
// message and all keys compared after every step.
func TestElectionModelIsLikeTheScripts(t *testing.T) {
	histories, length := 50, 80
	if testing.Short() {
		histories = 20
	}
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number is as good
	t.Logf("seed %d", seed)
	rdb := redistest.Shared(t).Client(t)
	seen := map[string]int{}
	for h := range uint64(histories) { //nolint:gosec // few
		r := newReplay(t, rdb, seed+h, 0)
		for range length {
			seen[r.step()]++
			require.Empty(t, r.difference(), "history %d: %v", h, r.steps)
		}
		r.end()
	}
	t.Logf("proof: election model: %d steps are like the scripts': %v", histories*length, seen)
	for _, branch := range []string{
		"acquire 1", "acquire 0", "announce 1", "announce -1", "release 1", "release -1", "renew 1", "renew -1", "leader 1", "leader 0",
		"handed over: acquire", "handed over: release", "time passes", "keys lost", "lock deleted", "mailbox",
	} {
		require.Positive(t, seen[branch], "%q was never compared", branch)
	}
}

// TestElectionModelUnlikeTheScripts is the control: a model that differs in one rule is told from the
// scripts.
func TestElectionModelUnlikeTheScripts(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	for what, off := range map[string]defence{
		"anybody announces": holderOnly, "in place of a later one": notOlder, "no end": saidEnds, "announced unheard": tellsAnnounce,
		"stays when released": releaseDeletes, "anybody's goes": releaseOwner, "released unheard": tellsRelease,
		"not renewed": renewSaid, "leads without the lock": leaderHolds, "an old token": newToken,
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
	r := &replay{
		t: t, rdb: rdb, rnd: rand.New(rand.NewPCG(seed, 1)), terms: terms{off: off}, //nolint:gosec // for tests
		name: t.Name() + strconv.FormatUint(seed, 36), real: map[uint8]int64{},
	}
	for c := range r.terms.deaf {
		r.terms.deaf[c] = true
	}
	r.ears = rdb.Subscribe(t.Context(), r.name, r.key("changes"))
	r.subscribed("subscribe", r.name)
	r.subscribed("subscribe", r.key("changes"))
	return r
}

func (r *replay) key(of string) string { return of + ":{" + r.name + "}" }

func (r *replay) queueKeys() []any {
	return []any{r.name, r.key("token"), r.key("queue"), r.key("deadlines"), r.key("channel")}
}

// end leaves nothing behind.
func (r *replay) end() {
	require.NoError(r.t, r.ears.Close())
	require.NoError(r.t, r.rdb.Del(r.t.Context(), r.name, r.key("token"), r.key("queue"), r.key("deadlines"), r.key("said")).Err())
}

func owner(id uint8) string {
	c, _ := ownerOf(id)
	return "client" + strconv.Itoa(c) + ":h" + strconv.Itoa(int(id))
}

func (r *replay) few(n int) uint8 { return uint8(r.rnd.IntN(n)) } //nolint:gosec // a few

// present is the owner that a candidate is now; it may also be one that it was.
func (r *replay) present(c uint8) uint8 { return c*gens + r.gens[c] + 1 }

// millis is a number of ticks for a script. Rounded up these are whole ticks. Of two times of equal
// ticks the later one is longer, or else it would depend on the millisecond which of them a script
// takes for the longer one.
func (r *replay) millis(ticks uint8) int64 {
	return (time.Duration(ticks)*tickLength - tickLength/2).Milliseconds() + 10*int64(len(r.steps))
}

// step takes a random step on both sides and returns what it was, with the status of its reply.
func (r *replay) step() string {
	t := &r.terms
	t.lease, t.claim, t.keep = 2+r.few(3), 1+r.few(2), 3+r.few(3)
	lease, claim, keep := r.millis(t.lease), r.millis(t.claim), r.millis(t.keep)
	c := r.few(maxCandidates)
	id := r.present(c)
	before := r.model.token
	var what string
	var want answer
	var call lua.Call
	switch n := r.few(40); {
	case n < 10:
		what, want = "acquire", r.model.acquire(t, id)
		call = lua.FairAcquire.Call(append(r.queueKeys(), owner(id), lease, (100 * tickLength).Milliseconds(), "0",
			placeLasts.Milliseconds(), claim, "PUBLISH")...)
	case n < 18:
		token := r.model.token
		if r.few(3) == 0 { // from before
			id -= min(r.few(2), r.gens[c])
			token -= min(r.few(3), token)
		}
		if _, known := r.real[token]; !known {
			return r.elsewise(n)
		}
		what, want = "announce", r.model.announce(t, id, token)
		call = lua.ElectionAnnounce.Call(r.name, r.key("said"), r.key("changes"), owner(id), strconv.FormatInt(r.real[token], 10), "v w",
			keep, "PUBLISH")
	case n < 24:
		what, want = "release", r.model.release(t, id)
		if r.gens[c] < gens-1 {
			r.gens[c]++ // it campaigns as another
		}
		call = lua.ElectionRelease.Call(append(r.queueKeys(), r.key("said"), r.key("changes"), owner(id), "PUBLISH", claim,
			(100 * tickLength).Milliseconds())...)
	case n < 29:
		what, want = "renew", r.model.renew(t, id)
		call = lua.ElectionRenew.Call(r.name, r.key("token"), r.key("said"), owner(id), lease, keep)
	case n < 34:
		what, want = "leader", r.model.leader(t)
		call = lua.ElectionLeader.Call(r.name, r.key("said"))
	default:
		return r.elsewise(n)
	}
	got, err := lua.Run(r.t.Context(), r.rdb, call)
	require.NoError(r.t, err)
	r.steps = append(r.steps, fmt.Sprintf("%s %s, lease %d, claim %d, keep %d: %d", what, owner(id), t.lease, t.claim, t.keep, got.Status))
	r.compare(what, want, got)
	if r.model.token != before && want.mail != 0 {
		return "handed over: " + what
	}
	return fmt.Sprintf("%s %d", what, got.Status)
}

// elsewise is a step that is no command of ours.
func (r *replay) elsewise(n uint8) (what string) {
	ctx := r.t.Context()
	defer func() { r.steps = append(r.steps, what) }()
	switch {
	case n == 34 && r.few(3) == 0:
		r.model = keys{token: r.model.token}
		require.NoError(r.t, r.rdb.Del(ctx, r.name, r.key("queue"), r.key("deadlines"), r.key("said")).Err())
		return "keys lost"
	case n == 35 && r.few(2) == 0:
		r.model.owner, r.model.ttl = 0, 0
		require.NoError(r.t, r.rdb.Del(ctx, r.name).Err())
		return "lock deleted"
	case n < 37:
		c := int(r.few(maxCandidates))
		channel, kind, change := r.key("channel")+":client"+strconv.Itoa(c), "subscribe", r.ears.Subscribe
		if !r.terms.deaf[c] {
			kind, change = "unsubscribe", r.ears.Unsubscribe
		}
		require.NoError(r.t, change(ctx, channel))
		r.subscribed(kind, channel)
		r.terms.deaf[c] = !r.terms.deaf[c]
		return "mailbox"
	}
	r.model.tick()
	for _, key := range []string{r.name, r.key("said")} {
		switch left := ticks(r.rdb.PTTL(ctx, key).Val()); {
		case left == 1:
			require.NoError(r.t, r.rdb.Del(ctx, key).Err())
		case left > 1 && left != endless:
			require.NoError(r.t, r.rdb.PExpire(ctx, key, time.Duration(left-1)*tickLength-tickLength/2).Err())
		}
	}
	return "time passes"
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

func ticks(left time.Duration) uint8 {
	switch {
	case left == -1:
		return endless
	case left < 0:
		return 0
	}
	return uint8((left + tickLength - 1) / tickLength) //nolint:gosec // a few
}

// same notes that a token of the model's is this one at the server: one for one, and in the same
// order.
func (r *replay) same(model uint8, text string) {
	real, err := strconv.ParseInt(text, 10, 64)
	require.NoError(r.t, err)
	for m, other := range r.real {
		if (m == model) != (other == real) || (m < model) != (other < real) {
			r.differ("token %d is %d at the server, where %d is %d", model, real, m, other)
		}
	}
	r.real[model] = real
}

func (r *replay) differ(format string, args ...any) {
	if r.wrong == "" {
		r.wrong = fmt.Sprintf(format, args...)
	}
}

// difference compares the keys, and tells how they or the last reply differ.
func (r *replay) difference() string {
	ctx := r.t.Context()
	hash, err := r.rdb.HGetAll(ctx, r.name).Result()
	require.NoError(r.t, err)
	want := map[string]string{}
	if r.model.owner != 0 {
		want[owner(r.model.owner)] = "1"
	}
	if token, err := r.rdb.Get(ctx, r.key("token")).Result(); !errors.Is(err, redis.Nil) {
		require.NoError(r.t, err)
		r.same(r.model.token, token) // a hand-over that nobody hears of is seen here first
	}
	said := ""
	if r.model.said != 0 {
		said = fmt.Sprintf("%d %s v w", r.real[r.model.said], owner(r.model.saidBy))
	}
	queued := []string{}
	for _, id := range r.model.queue {
		if id != 0 {
			queued = append(queued, owner(id))
		}
	}
	switch {
	case r.wrong != "":
		return r.wrong
	case fmt.Sprint(hash) != fmt.Sprint(want):
		return fmt.Sprintf("the hash is %v, the model's %v", hash, want)
	case ticks(r.rdb.PTTL(ctx, r.name).Val()) != r.model.ttl:
		return fmt.Sprintf("the hash lives for %v, the model's for %d ticks", r.rdb.PTTL(ctx, r.name).Val(), r.model.ttl)
	case r.rdb.Get(ctx, r.key("said")).Val() != said:
		return fmt.Sprintf("what was said is %q, the model's %q", r.rdb.Get(ctx, r.key("said")).Val(), said)
	case ticks(r.rdb.PTTL(ctx, r.key("said")).Val()) != r.model.saidTTL:
		return fmt.Sprintf("what was said lives for %v, the model's for %d ticks", r.rdb.PTTL(ctx, r.key("said")).Val(), r.model.saidTTL)
	case fmt.Sprint(r.rdb.LRange(ctx, r.key("queue"), 0, -1).Val()) != fmt.Sprint(queued):
		return fmt.Sprintf("in the queue are %v, the model's is %v", r.rdb.LRange(ctx, r.key("queue"), 0, -1).Val(), queued)
	}
	return ""
}
