package plain

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
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

// replay is one random history, run on the model's keys and, by the scripts, on those of a real
// server.
type replay struct {
	t     *testing.T
	rdb   *redis.Client
	rnd   *rand.Rand
	model keys
	name  string
	token string
	real  map[uint8]int64 // what the model's tokens are at the server
	wrong string          // how the last reply differs
	steps []string        // so far, for whoever has to understand a difference
}

// TestModelIsLikeTheScripts ties the model to the scripts: random histories of commands, of time
// and of what operators do, with every reply and all keys compared after every step.
func TestModelIsLikeTheScripts(t *testing.T) {
	const histories, length = 60, 60
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number is as good
	t.Logf("seed %d", seed)
	rdb := redistest.Shared(t).Client(t)
	seen := map[string]int{}
	for h := range uint64(histories) {
		r := newReplay(t, rdb, seed+h)
		for range length {
			seen[r.step(0)]++
			require.Empty(t, r.difference(), "history %d: %v", h, r.steps)
		}
		require.NoError(t, rdb.Del(t.Context(), r.name, r.token).Err())
	}
	t.Logf("%d steps: %v", histories*length, seen)
	for _, branch := range []string{
		"acquire 1", "acquire 0", "acquire again 1", "acquire again 0", "recount 1", "recount -1", "release 1",
		"release -1",
		"renew 1", "renew -1", "time passes", "keys lost", "token ahead",
	} {
		require.Positive(t, seen[branch], "%q was never compared", branch)
	}
}

// TestModelUnlikeTheScripts is the control: a model that differs in one rule is told from the
// scripts.
func TestModelUnlikeTheScripts(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	for what, off := range map[string]defence{
		"again": againFlag, "absolute": absolute, "release": releaseOwner, "renew": renewOwner,
		"brings back": renewExists,
		"shortens":    renewKeeps, "no lease": leaseOfGrant, "only the clock": lastToken, "only the last": clockToken,
		"again keeps": againKeeps,
	} {
		t.Run(what, func(t *testing.T) {
			for h := range uint64(200) {
				r := newReplay(t, rdb, h)
				for range 60 {
					r.step(off)
					if r.difference() != "" {
						return
					}
				}
			}
			t.Error("no difference was found")
		})
	}
}

func newReplay(t *testing.T, rdb *redis.Client, seed uint64) *replay {
	name := t.Name() + strconv.FormatUint(seed, 36)
	return &replay{
		t: t, rdb: rdb, rnd: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // for tests
		model: keys{clock: 1}, name: name, token: "token:{" + name + "}", real: map[uint8]int64{},
	}
}

// step takes a random step on both sides and returns what it was, with the status of its reply.
func (r *replay) step(off defence) string {
	owner, lease, count := uint8(1+r.rnd.IntN(3)), uint8(2+r.rnd.IntN(3)), uint8(1+r.rnd.IntN(3)) //nolint:gosec // small
	field := "owner" + strconv.Itoa(int(owner))
	// Rounded up these are whole ticks. Of two leases of equal ticks the later one is longer, or
	// else it would depend on the millisecond which of them a script takes for the longer one.
	ms := (time.Duration(lease)*tickLength - tickLength/2).Milliseconds() + 10*int64(len(r.steps))
	tokenMS := (2*time.Duration(lease)*tickLength - tickLength/2).Milliseconds()
	var what string
	var want answer
	var call lua.Call
	switch n := r.rnd.IntN(40); {
	case n < 5:
		what, want = "acquire", r.acquire(off, owner, lease, false)
		call = lua.Acquire.Call(r.name, r.token, field, ms, tokenMS, "0")
	case n < 12:
		what, want = "acquire again", r.acquire(off, owner, lease, true)
		call = lua.Acquire.Call(r.name, r.token, field, ms, tokenMS, "1")
	case n < 18:
		what, want = "recount", r.model.recount(off, owner, count, lease)
		call = lua.Recount.Call(r.name, field, count, ms)
	case n < 23:
		what, want = "release", r.model.release(off, owner)
		call = lua.Release.Call(r.name, "channel:{"+r.name+"}", field, "PUBLISH")
	case n < 29:
		what, want = "renew", r.model.renew(off, owner, lease)
		call = lua.Renew.Call(r.name, r.token, field, ms, tokenMS)
	default:
		what = r.elsewise(n)
		r.steps = append(r.steps, what)
		return what
	}
	got, err := lua.Run(r.t.Context(), r.rdb, call)
	require.NoError(r.t, err)
	r.steps = append(r.steps, fmt.Sprintf("%s %s, lease %d, count %d: %d", what, field, lease, count, got.Status))
	r.compare(what, want, got)
	return fmt.Sprintf("%s %d", what, got.Status)
}

// acquire is the model's, with its clock, which goes on with every grant.
func (r *replay) acquire(off defence, owner, lease uint8, again bool) answer {
	before := r.model.token
	a := r.model.acquire(off, owner, lease, again)
	if r.model.token != before {
		r.model.clock++
	}
	return a
}

// elsewise is a step that is no command of ours.
func (r *replay) elsewise(n int) string {
	ctx := r.t.Context()
	switch {
	case n == 29:
		r.model = keys{clock: r.model.clock}
		require.NoError(r.t, r.rdb.Del(ctx, r.name, r.token).Err())
		return "keys lost"
	case n == 30 && r.model.token != 0 && r.model.token < 100: // as after the clock was set back
		r.model.token += 100
		last, err := r.rdb.Get(ctx, r.token).Int64()
		require.NoError(r.t, err)
		last += int64(time.Hour / time.Microsecond)
		require.NoError(r.t, r.rdb.Set(ctx, r.token, last, redis.KeepTTL).Err())
		r.same(r.model.token, last)
		return "token ahead"
	}
	r.model.tick()
	for _, key := range []string{r.name, r.token} {
		switch left := r.ticks(key); {
		case left == 1:
			require.NoError(r.t, r.rdb.Del(ctx, key).Err())
		case left > 1 && left != endless:
			require.NoError(r.t, r.rdb.PExpire(ctx, key, time.Duration(left-1)*tickLength-tickLength/2).Err())
		}
	}
	return "time passes"
}

// ticks is a key's time to live as the model counts it.
func (r *replay) ticks(key string) uint8 {
	left := r.rdb.PTTL(r.t.Context(), key).Val()
	switch {
	case left == -1:
		return endless
	case left < 0:
		return 0
	}
	return uint8((left + tickLength - 1) / tickLength) //nolint:gosec // a few
}

// compare notes how a reply differs from the model's.
func (r *replay) compare(what string, want answer, got lua.Reply) {
	switch {
	case got.Status != want.status:
		r.wrong = fmt.Sprintf("%s replied %d, the model %d", what, got.Status, want.status)
	case got.Status == lua.Denied:
		left := (time.Duration(got.Int(0))*time.Millisecond + tickLength - 1) / tickLength
		if left != time.Duration(want.left) && (want.left != endless || got.Int(0) != -1) {
			r.wrong = fmt.Sprintf("%s replied %d ticks, the model %d", what, left, want.left)
		}
	case strings.HasPrefix(what, "acquire"):
		token, err := strconv.ParseInt(got.Text(0), 10, 64)
		require.NoError(r.t, err)
		r.same(want.token, token)
	}
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

// difference compares the keys, and tells how they or the last reply differ.
func (r *replay) difference() string {
	hash, err := r.rdb.HGetAll(r.t.Context(), r.name).Result()
	require.NoError(r.t, err)
	want := map[string]string{}
	if r.model.owner != 0 {
		want["owner"+strconv.Itoa(int(r.model.owner))] = strconv.Itoa(int(r.model.count))
	}
	token, err := r.rdb.Get(r.t.Context(), r.token).Int64()
	if !errors.Is(err, redis.Nil) {
		require.NoError(r.t, err)
	}
	switch ttl, tokenTTL := r.ticks(r.name), r.ticks(r.token); {
	case r.wrong != "":
		return r.wrong
	case fmt.Sprint(hash) != fmt.Sprint(want):
		return fmt.Sprintf("the hash is %v, the model's %v", hash, want)
	case ttl != r.model.ttl:
		return fmt.Sprintf("the hash lives for %d ticks, the model's for %d", ttl, r.model.ttl)
	case tokenTTL != r.model.tokenTTL:
		return fmt.Sprintf("the token's key lives for %d ticks, the model's for %d", tokenTTL, r.model.tokenTTL)
	case r.model.token != 0 && token != r.real[r.model.token], r.model.token == 0 && token != 0:
		return fmt.Sprintf("the token is %d, the model's %d", token, r.model.token)
	}
	return ""
}
