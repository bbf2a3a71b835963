package latch

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
// takes off. A call is remembered for an hour and some at most, which is more than the ticks that
// are needed.
const tickLength = 1000 * time.Second

// replay is one random history, run on the model's keys and, by the scripts, on those of a real
// server, with a real subscriber.
type replay struct {
	t     *testing.T
	rdb   *redis.Client
	ears  *redis.PubSub
	rnd   *rand.Rand
	off   defence
	model keys
	name  string
	wrong string   // how the last reply, or message, differs
	steps []string // so far, for whoever has to understand a difference
}

// TestLatchModelIsLikeTheScripts ties the model to the scripts: random histories of calls, repeats,
// time and Redisson, with every reply, every message and all keys compared after every step.
func TestLatchModelIsLikeTheScripts(t *testing.T) {
	histories, length := 60, 60
	if testing.Short() {
		histories = 25
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
	t.Logf("proof: latch model: %d steps are like the scripts': %v", histories*length, seen)
	for _, branch := range []string{
		"set 1", "set 0", "count", "count, told", "count idle", "delete 1", "delete 0", "repeat of set", "repeat of count",
		"repeat of delete", "late", "look", "time passes", "Redisson counts", "Redisson sets", "Redisson deletes",
	} {
		require.Positive(t, seen[branch], "%q was never compared", branch)
	}
}

// TestLatchModelUnlikeTheScripts is the control: a model that differs in one rule is told from the
// scripts.
func TestLatchModelUnlikeTheScripts(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	for what, off := range map[string]defence{
		"counts again": countOnce, "sets again": setAgain, "deletes again": deleteAgain, "only what did something": idleKept,
		"not for long": keptLong, "late": lateness, "set over": setOnce, "no message at zero": tellsZero,
		"no message of a deletion": tellsDelete, "no end": staySet, "not put off": stayCount, "brought nearer": stayLonger,
		"an end for Redisson's": stayForeign,
	} {
		t.Run(what, func(t *testing.T) {
			for h := range uint64(200) {
				if newReplay(t, rdb, h, off).differs(60) {
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
		t: t, rdb: rdb, rnd: rand.New(rand.NewPCG(seed, 1)), off: off, //nolint:gosec // for tests
		name: t.Name() + strconv.FormatUint(seed, 36),
	}
	r.ears = rdb.Subscribe(t.Context(), r.channel(), r.name+":end")
	for range 2 {
		_, err := r.ears.Receive(t.Context())
		require.NoError(t, err)
	}
	return r
}

func (r *replay) channel() string { return "redisson_countdownlatch__channel__{" + r.name + "}" }

func (r *replay) call(id uint8) string {
	return "holdfast_latch:{" + r.name + "}:a:h" + strconv.Itoa(int(id))
}

// all are the keys of the history.
func (r *replay) all() []string {
	list := []string{r.name}
	for id := range uint8(maxCalls) {
		list = append(list, r.call(id))
	}
	return list
}

// end leaves nothing behind.
func (r *replay) end() {
	require.NoError(r.t, r.ears.Close())
	require.NoError(r.t, r.rdb.Del(r.t.Context(), r.all()...).Err())
}

func (r *replay) few(n int) uint8 { return uint8(r.rnd.IntN(n)) } //nolint:gosec // a few

// step takes a random step on both sides and returns what it was.
func (r *replay) step() (what string) {
	defer func() { r.steps = append(r.steps, what) }()
	switch n := r.few(20); {
	case n < 13:
		return r.request()
	case n == 13:
		return r.look()
	case n == 14:
		told := r.model.redissonCounts()
		if r.rdb.Decr(r.t.Context(), r.name).Val() <= 0 {
			require.NoError(r.t, r.rdb.Del(r.t.Context(), r.name).Err())
		}
		if told {
			require.NoError(r.t, r.rdb.Publish(r.t.Context(), r.channel(), "0").Err())
		}
		r.compareMessages(told, "0")
		return "Redisson counts"
	case n == 15 && r.model.count == 0:
		r.model.count, r.model.ttl = 2, endless
		require.NoError(r.t, r.rdb.Set(r.t.Context(), r.name, 2, 0).Err())
		return "Redisson sets"
	case n == 15 && r.few(3) == 0:
		r.model.count, r.model.ttl = 0, 0
		require.NoError(r.t, r.rdb.Del(r.t.Context(), r.name).Err())
		return "Redisson deletes"
	}
	r.tick()
	return "time passes"
}

// request is one attempt of a call: of one that is known, or of another.
func (r *replay) request() string {
	t := terms{off: r.off, limit: 1, more: 2, count: 1 + r.few(3), stay: 2 + r.few(3)}
	q := request{kind: set + r.few(3), id: r.few(maxCalls), age: r.few(3)}
	known, stood := r.model.calls[q.id].left > 0, r.model.count > 0
	if known && r.few(2) == 0 { // seldom the same kind; to the server that makes no difference but in the reply
		r.model.calls[q.id] = memory{}
		require.NoError(r.t, r.rdb.Del(r.t.Context(), r.call(q.id)).Err())
		known = false
	}
	// Rounded up these are whole ticks. Of two times of equal ticks the later one is longer.
	stay := (time.Duration(t.stay)*tickLength - tickLength/2).Milliseconds() + 10*int64(len(r.steps))
	limit := r.rdb.Time(r.t.Context()).Val().Add(time.Duration(int(t.limit)-int(q.age)) * tickLength)
	if q.age == t.limit {
		limit = limit.Add(tickLength / 10) // it is still in time, and adds less than a tick
	}
	more := (time.Duration(t.more)*tickLength - tickLength/2).Milliseconds()
	script := map[uint8]*lua.Script{set: lua.LatchSet, count: lua.LatchCount, remove: lua.LatchDelete}[q.kind]
	want := r.model.run(&t, q)
	got, err := lua.Run(r.t.Context(), r.rdb, script.Call(r.name, r.call(q.id), t.count, stay, limit.UnixMicro(), more, "PUBLISH", r.channel()))
	require.NoError(r.t, err)
	name := [kinds]string{set: "set", count: "count", remove: "delete"}[q.kind]
	clock := 1
	if got.Status == lua.Late {
		clock = 0
	}
	_, err = strconv.ParseInt(got.Text(clock), 10, 64)
	require.NoError(r.t, err)
	if got.Status != want.status || want.status == lua.Done && got.Int(0) != int64(want.n) {
		r.wrong = fmt.Sprintf("%s replied %v, the model %+v", name, got, want)
	}
	text := "0"
	if q.kind == set {
		text = "1"
	}
	r.compareMessages(want.told, text)
	switch {
	case want.status == lua.Late:
		return "late"
	case known:
		return "repeat of " + name
	case q.kind != count:
		return fmt.Sprintf("%s %d", name, want.n)
	case !stood:
		return "count idle"
	case want.told:
		return "count, told"
	}
	return "count"
}

func (r *replay) look() string {
	got, err := lua.Run(r.t.Context(), r.rdb, lua.LatchLook.Call(r.name))
	require.NoError(r.t, err)
	lasts := got.Int(1)
	if left := ticks(time.Duration(lasts) * time.Millisecond); lasts == -1 && r.model.ttl != endless ||
		lasts != -1 && left != r.model.ttl || got.Int(0) != int64(r.model.count) {
		r.wrong = fmt.Sprintf("look replied %v, the model has %d for %d ticks", got, r.model.count, r.model.ttl)
	}
	return "look"
}

// compareMessages are those that were sent so far: what a server sends by one connection comes in
// order, so all of them are before one that is sent now.
func (r *replay) compareMessages(told bool, text string) {
	require.NoError(r.t, r.rdb.Publish(r.t.Context(), r.name+":end", "").Err())
	heard := ""
	for {
		m, err := r.ears.ReceiveMessage(r.t.Context())
		require.NoError(r.t, err)
		if m.Channel != r.channel() {
			break
		}
		heard += m.Payload
	}
	if told && heard != text || !told && heard != "" {
		r.wrong = fmt.Sprintf("the message was %q, the model's %t", heard, told)
	}
}

// tick takes a tick off all times to live.
func (r *replay) tick() {
	r.model.tick()
	for _, key := range r.all() {
		left := r.rdb.PTTL(r.t.Context(), key).Val()
		switch n := ticks(left); {
		case n == 1:
			require.NoError(r.t, r.rdb.Del(r.t.Context(), key).Err())
		case n > 1 && n != endless:
			require.NoError(r.t, r.rdb.PExpire(r.t.Context(), key, time.Duration(n-1)*tickLength-tickLength/2).Err())
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

// difference compares the keys, and tells how they or the last reply differ.
func (r *replay) difference() string {
	ctx := r.t.Context()
	left, err := r.rdb.Get(ctx, r.name).Int64()
	if !errors.Is(err, redis.Nil) {
		require.NoError(r.t, err)
	}
	switch ttl := ticks(r.rdb.PTTL(ctx, r.name).Val()); {
	case r.wrong != "":
		return r.wrong
	case left != int64(r.model.count):
		return fmt.Sprintf("the count is %d, the model's %d", left, r.model.count)
	case ttl != r.model.ttl:
		return fmt.Sprintf("the latch lives for %d ticks, the model's for %d", ttl, r.model.ttl)
	}
	for id := range uint8(maxCalls) {
		said, err := r.rdb.Get(ctx, r.call(id)).Int64()
		if !errors.Is(err, redis.Nil) {
			require.NoError(r.t, err)
		}
		kept := ticks(r.rdb.PTTL(ctx, r.call(id)).Val())
		if c := r.model.calls[id]; kept != c.left || said != int64(c.said) {
			return fmt.Sprintf("call %d is remembered for %d ticks as %d, the model's is %+v", id, kept, said, c)
		}
	}
	return ""
}
