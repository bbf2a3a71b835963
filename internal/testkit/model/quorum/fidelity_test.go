package quorum

import (
	"errors"
	"fmt"
	"math"
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

// replay is one random history, run on the keys of one of the model's masters and, by the scripts,
// on those of a real server. Tokens are the same on both sides, for clients propose them.
type replay struct {
	t           *testing.T
	rdb         *redis.Client
	rnd         *rand.Rand
	off         defence
	model       keys
	name, token string
	steps       []string
	wrong       string // how the last reply differs
}

func newReplay(t *testing.T, rdb *redis.Client, seed uint64, off defence) *replay {
	name := t.Name() + strconv.FormatUint(seed, 36)
	return &replay{
		t: t, rdb: rdb, rnd: rand.New(rand.NewPCG(seed, 3)), off: off, //nolint:gosec // for tests
		name: name, token: "token:{" + name + "}",
	}
}

// TestVoteModelIsLikeTheScripts: every reply and the keys are the same after every step.
func TestVoteModelIsLikeTheScripts(t *testing.T) {
	const histories, length = 60, 60
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
		require.NoError(t, rdb.Del(t.Context(), r.name, r.token).Err())
	}
	t.Logf("%d steps: %v", histories*length, seen)
	for _, branch := range []string{
		"vote 1", "vote 0", "vote again 1", "vote late -2", "release 1", "release -1", "renew 1", "renew -1",
		"time passes", "keys lost", "hash lost",
	} {
		require.Positive(t, seen[branch], "%q was never compared", branch)
	}
}

// TestVoteModelUnlikeTheScripts is the control: a model that differs in one rule is told from the
// scripts.
func TestVoteModelUnlikeTheScripts(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	for what, off := range map[string]defence{
		"votes twice": votesOnce, "shortens": keepsLease, "no lease": grantEnds, "token as proposed": aboveLast,
		"releases":    freesOwner,
		"brings back": renewPure, "votes late": lateness,
	} {
		t.Run(what, func(t *testing.T) {
			for h := range uint64(50) {
				r := newReplay(t, rdb, h, off)
				for range 60 {
					r.step()
					if r.difference() != "" {
						return
					}
				}
			}
			t.Error("no difference was found")
		})
	}
}

func fieldOf(owner uint8) string { return "owner" + strconv.Itoa(int(owner)) }

// step takes a random step on both sides and returns what it was, with the status of its reply.
func (r *replay) step() string {
	//nolint:gosec // all are small
	owner, lease, count, token := uint8(1+r.rnd.IntN(3)), uint8(2+r.rnd.IntN(3)), uint8(1+r.rnd.IntN(3)),
		uint8(1+r.rnd.IntN(40))
	field := fieldOf(owner)
	// As in the other models, later leases of equal ticks are longer.
	ms := (time.Duration(lease)*tickLength - tickLength/2).Milliseconds() + 10*int64(len(r.steps))
	const life = 100 * 1000 * 1000
	var what string
	var want answer
	var call lua.Call
	switch n := r.rnd.IntN(40); {
	case n < 16:
		late, until := n == 0, int64(math.MaxInt64)
		if what = "vote"; late {
			what, until = "vote late", 1
		}
		want = r.model.vote(r.off, owner, count, lease, token, late)
		if want.again && !late {
			what = "vote again"
		}
		call = lua.Vote.Call(r.name, r.token, field, ms, life, count, strconv.Itoa(int(token)), until)
	case n < 22:
		what, want = "release", r.model.release(r.off, owner)
		call = lua.Release.Call(r.name, "channel:{"+r.name+"}", field, "PUBLISH")
	case n < 30:
		what, want = "renew", r.model.renew(r.off, owner, lease)
		call = lua.Renew.Call(r.name, r.token, field, ms, life)
	default:
		what = r.elsewise(n)
		r.steps = append(r.steps, what)
		return what
	}
	got, err := lua.Run(r.t.Context(), r.rdb, call)
	require.NoError(r.t, err)
	r.steps = append(r.steps, fmt.Sprintf("%s %s, lease %d, count %d, token %d: %d", what, field, lease, count, token,
		got.Status))
	r.compare(what, want, got)
	return fmt.Sprintf("%s %d", what, got.Status)
}

// elsewise is a step that is no command of ours.
func (r *replay) elsewise(n int) string {
	ctx := r.t.Context()
	if n == 30 {
		r.model = keys{}
		require.NoError(r.t, r.rdb.Del(ctx, r.name, r.token).Err())
		return "keys lost"
	}
	if n == 31 {
		r.model.owner, r.model.count, r.model.ttl = 0, 0, 0
		require.NoError(r.t, r.rdb.Del(ctx, r.name).Err())
		return "hash lost"
	}
	r.model.tick()
	switch left := r.ticks(); {
	case left == 1:
		require.NoError(r.t, r.rdb.Del(ctx, r.name).Err())
	case left > 1 && left != endless:
		require.NoError(r.t, r.rdb.PExpire(ctx, r.name, time.Duration(left-1)*tickLength-tickLength/2).Err())
	}
	return "time passes"
}

// ticks is the lock's time to live as the model counts it; 0: no such key.
func (r *replay) ticks() uint8 {
	left := r.rdb.PTTL(r.t.Context(), r.name).Val()
	if left == -1 {
		return endless
	}
	return uint8((max(left, 0) + tickLength - 1) / tickLength) //nolint:gosec // a few
}

// compare notes how a reply differs from the model's.
func (r *replay) compare(what string, want answer, got lua.Reply) {
	switch {
	case got.Status != want.status:
		r.wrong = fmt.Sprintf("%s replied %d, the model %d", what, got.Status, want.status)
	case got.Status == lua.Denied:
		left := (time.Duration(got.Int(0))*time.Millisecond + tickLength - 1) / tickLength
		if last := strconv.Itoa(int(want.last)); got.Text(2) != last {
			r.wrong = fmt.Sprintf("%s replied that the last token is %q, the model %q", what, got.Text(2), last)
		}
		if left != time.Duration(want.left) || got.Text(1) != fieldOf(want.holder) {
			r.wrong = fmt.Sprintf("%s replied %d ticks and %q, the model %d and %d", what, left, got.Text(1), want.left,
				want.holder)
		}
	case want.token != 0:
		token, again, last := got.Text(0), got.Int(1) == 1, got.Text(2)
		if wantLast := strconv.Itoa(int(want.last)); !again && last != wantLast {
			r.wrong = fmt.Sprintf("%s replied that the last token was %q, the model %q", what, last, wantLast)
		}
		if token != strconv.Itoa(int(want.token)) || again != want.again {
			r.wrong = fmt.Sprintf("%s replied token %q, again %v, the model %d and %v", what, token, again, want.token,
				want.again)
		}
	}
}

// difference compares the keys, and tells how they or the last reply differ.
func (r *replay) difference() string {
	hash, err := r.rdb.HGetAll(r.t.Context(), r.name).Result()
	require.NoError(r.t, err)
	want := map[string]string{}
	if r.model.owner != 0 {
		want[fieldOf(r.model.owner)] = strconv.Itoa(int(r.model.count))
	}
	token, err := r.rdb.Get(r.t.Context(), r.token).Int()
	if !errors.Is(err, redis.Nil) {
		require.NoError(r.t, err)
	}
	switch ttl := r.ticks(); {
	case r.wrong != "":
		return r.wrong
	case fmt.Sprint(hash) != fmt.Sprint(want):
		return fmt.Sprintf("the hash is %v, the model's %v", hash, want)
	case ttl != r.model.ttl:
		return fmt.Sprintf("the hash lives for %d ticks, the model's for %d", ttl, r.model.ttl)
	case token != int(r.model.token):
		return fmt.Sprintf("the token is %d, the model's %d", token, r.model.token)
	}
	return ""
}
