package handoff

import (
	"context"
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

// replay is one random history, run on the model's keys and, by the scripts, on those of a real
// server.
type replay struct {
	t                    *testing.T
	rdb                  *redis.Client
	rnd                  *rand.Rand
	model                keys
	name, token, channel string
	sub                  *redis.PubSub     // somebody who listens, or nil
	real                 map[uint16]uint64 // what the model's tokens are at the server
	ahead                bool              // once is enough: the model does not know how far
	change               mutation
	steps                []string
	wrong                string
}

// mutation is what a control makes of the model's side.
type mutation struct {
	off    defence
	others func(bool) bool
	block  func(uint16) uint16
}

func newReplay(t *testing.T, rdb *redis.Client, seed uint64, change mutation) *replay {
	name := t.Name() + strconv.FormatUint(seed, 36)
	return &replay{
		t: t, rdb: rdb, rnd: rand.New(rand.NewPCG(seed, 2)), //nolint:gosec // for tests
		model: keys{clock: 1}, name: name, token: "token:{" + name + "}", channel: "channel:{" + name + "}",
		real: map[uint16]uint64{}, change: change,
	}
}

// TestHandModelIsLikeTheScripts: every reply and the keys are the same after every step.
func TestHandModelIsLikeTheScripts(t *testing.T) {
	const histories, length = 40, 60
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number is as good
	t.Logf("seed %d", seed)
	rdb := redistest.Shared(t).Client(t)
	seen := map[string]int{}
	for h := range uint64(histories) {
		r := newReplay(t, rdb, seed+h, mutation{})
		for range length {
			seen[r.step()]++
			require.Empty(t, r.difference(), "history %d: %v", h, r.steps)
		}
		r.close()
	}
	t.Logf("%d steps: %v", histories*length, seen)
	for _, branch := range []string{
		"acquire 1", "acquire 0", "acquire again 1", "acquire again 0", "pass 1", "pass 0", "pass -1", "recount 1",
		"recount -1",
		"release 1", "release -1", "renew 1", "renew -1", "time passes", "keys lost", "token ahead", "listens",
	} {
		require.Positive(t, seen[branch], "%q was never compared", branch)
	}
}

// TestHandModelUnlikeTheScripts is the control: a model that differs in one rule is told from the
// scripts.
func TestHandModelUnlikeTheScripts(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	for what, change := range map[string]mutation{
		"a block is not reserved":       {off: reserved},
		"nobody is ever heard":          {others: func(bool) bool { return false }},
		"somebody always is":            {others: func(bool) bool { return true }},
		"a block has one token more":    {block: func(n uint16) uint16 { return n + 1 }},
		"every block is a single token": {block: func(uint16) uint16 { return 1 }},
	} {
		t.Run(what, func(t *testing.T) {
			for h := range uint64(50) {
				r := newReplay(t, rdb, h, change)
				for range 60 {
					r.step()
					if r.difference() != "" {
						r.close()
						return
					}
				}
				r.close()
			}
			t.Error("no difference was found")
		})
	}
}

func (r *replay) close() {
	if r.sub != nil {
		require.NoError(r.t, r.sub.Close())
	}
	require.NoError(r.t, r.rdb.Del(context.WithoutCancel(r.t.Context()), r.name, r.token).Err())
}

func fieldOf(owner uint8) string { return "owner" + strconv.Itoa(int(owner)) }

// step takes a random step on both sides and returns what it was, with the status of its reply.
func (r *replay) step() string {
	roll := r.rnd.IntN(44)
	if roll >= 34 {
		what := r.elsewise(roll)
		r.steps = append(r.steps, what)
		return what
	}
	owner := uint8(1 + r.rnd.IntN(4))                               //nolint:gosec // small
	lease, block := uint8(2+r.rnd.IntN(3)), uint16(1+r.rnd.IntN(3)) //nolint:gosec // small
	what, want, call := r.command(roll, owner, lease, block)
	if r.model.token >= r.model.clock && r.model.token < 1000 { // the real one has gone on, by more than a block
		r.model.clock = r.model.token + 1
	}
	got, err := lua.Run(r.t.Context(), r.rdb, call)
	require.NoError(r.t, err)
	r.steps = append(r.steps, fmt.Sprintf("%s %d, lease %d, block %d: %d", what, owner, lease, block, got.Status))
	r.compare(what, want, got)
	return fmt.Sprintf("%s %d", what, got.Status)
}

// changed is what the model is told instead of the truth, for a control.
func (r *replay) changed(block uint16) (uint16, bool) {
	others := r.sub != nil
	if c := r.change; c.others != nil {
		others = c.others(others)
	}
	if c := r.change; c.block != nil {
		block = c.block(block)
	}
	return block, others
}

// command runs one on the model, and returns the call for the server.
func (r *replay) command(roll int, id, lease uint8, block uint16) (what string, want answer, call lua.Call) {
	tokens, others := r.changed(block)
	// As in the other model's, later leases of equal ticks are longer.
	owner, ms := fieldOf(id), (time.Duration(lease)*tickLength-tickLength/2).Milliseconds()+10*int64(len(r.steps))
	const life = 100 * 1000 * 1000
	switch {
	case roll < 4:
		return "acquire again", r.model.acquire(r.change.off, id, lease, true, tokens),
			lua.Acquire.Call(r.name, r.token, owner, ms, life, "1", block)
	case roll < 9:
		return "acquire", r.model.acquire(r.change.off, id, lease, false, tokens),
			lua.Acquire.Call(r.name, r.token, owner, ms, life, "0", block)
	case roll < 17:
		return "pass", r.model.pass(r.change.off, id, lease, tokens, others),
			lua.Pass.Call(r.name, r.token, r.channel, owner, ms, life, "PUBLISH", block)
	case roll < 22:
		count := uint8(1 + r.rnd.IntN(3)) //nolint:gosec // small
		return "recount", r.model.recount(id, count, lease), lua.Recount.Call(r.name, owner, count, ms)
	case roll < 25:
		return "release", r.model.release(id), lua.Release.Call(r.name, r.channel, owner, "PUBLISH")
	}
	return "renew", r.model.renew(id, lease), lua.Renew.Call(r.name, r.token, owner, ms, life)
}

// elsewise is a step that is no command of ours.
func (r *replay) elsewise(roll int) string {
	ctx := r.t.Context()
	switch {
	case roll == 34:
		clock := r.model.clock
		r.model = keys{clock: clock}
		require.NoError(r.t, r.rdb.Del(ctx, r.name, r.token).Err())
		return "keys lost"
	case roll == 35 && r.model.token != 0 && !r.ahead: // as after the clock was set back
		r.ahead = true
		r.model.token += 1000
		last, err := r.rdb.IncrBy(ctx, r.token, int64(time.Hour/time.Microsecond)).Uint64()
		require.NoError(r.t, err)
		r.same(r.model.token, last)
		return "token ahead"
	case roll < 39 && r.sub == nil:
		r.sub = r.rdb.Subscribe(ctx, r.channel)
		_, err := r.sub.Receive(ctx)
		require.NoError(r.t, err)
		return "listens"
	case roll < 40 && r.sub != nil:
		require.NoError(r.t, r.sub.Unsubscribe(ctx, r.channel))
		for confirmed := false; !confirmed; { // messages stand before it
			msg, err := r.sub.Receive(ctx)
			require.NoError(r.t, err)
			s, ok := msg.(*redis.Subscription)
			confirmed = ok && s.Kind == "unsubscribe"
		}
		require.NoError(r.t, r.sub.Close())
		r.sub = nil
		return "listens no more"
	}
	r.model.tick()
	switch left := r.ticks(); {
	case left == 1:
		require.NoError(r.t, r.rdb.Del(ctx, r.name).Err())
	case left > 1:
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

func (r *replay) compare(what string, want answer, got lua.Reply) {
	switch {
	case got.Status != want.status:
		r.wrong = fmt.Sprintf("%s replied %d, the model %d", what, got.Status, want.status)
	case what == "pass" && got.Status == lua.Denied:
		if heard := got.Int(0) == 1; heard != want.listened {
			r.wrong = fmt.Sprintf("listeners: %d, the model %v", got.Int(0), want.listened)
		}
	case got.Status == lua.Denied:
		if left := (time.Duration(got.Int(0))*time.Millisecond +
			tickLength - 1) / tickLength; left != time.Duration(want.left) {
			r.wrong = fmt.Sprintf("%s replied %d ticks, the model %d", what, left, want.left)
		}
	case want.lo != 0:
		lo, err := strconv.ParseUint(got.Text(0), 10, 64)
		require.NoError(r.t, err)
		hi, _ := strconv.ParseUint(got.Text(1), 10, 64)
		if got.Text(2) != "" { // the token once more, and the time
			hi = 0
		}
		if (hi == 0) != (want.hi == 0) || hi != 0 && hi-lo != uint64(want.hi-want.lo) {
			r.wrong = fmt.Sprintf("%s gave tokens %d to %d, the model %d to %d", what, lo, hi, want.lo, want.hi)
		}
		r.same(want.lo, lo)
		if hi != 0 {
			r.same(want.hi, hi)
		}
	}
}

// same notes that a token of the model's is this one at the server: one for one, and in the same
// order.
func (r *replay) same(model uint16, real uint64) {
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
		want[fieldOf(r.model.owner)] = strconv.Itoa(int(r.model.count))
	}
	token, err := r.rdb.Get(r.t.Context(), r.token).Uint64()
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
	case r.model.token != 0 && token != r.real[r.model.token], r.model.token == 0 && token != 0:
		return fmt.Sprintf("the token is %d, the model's %d", token, r.model.token)
	}
	return ""
}
