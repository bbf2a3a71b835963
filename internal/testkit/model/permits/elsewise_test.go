package permits

import (
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
)

// elsewise is a step that is no command of ours.
func (r *replay) elsewise(n int) string {
	ctx := r.t.Context()
	switch {
	case n == 54:
		r.model = keys{Store: line.Store{Clock: r.model.Clock}}
		require.NoError(r.t, r.rdb.Del(ctx, r.keys()...).Err())
		return "keys lost"
	case n == 55 && r.model.Token != 0 && r.model.Token < 100: // as after the clock was set back
		r.model.Token += 100
		last, err := r.rdb.Get(ctx, r.token).Int64()
		require.NoError(r.t, err)
		last += int64(time.Hour / time.Microsecond)
		require.NoError(r.t, r.rdb.Set(ctx, r.token, last, redis.KeepTTL).Err())
		r.same(r.model.Token, last)
		return "token ahead"
	case n < 59:
		r.toggle(r.few(3))
		return "mailbox"
	case n < 66:
		return r.redisson()
	case n < 70 && r.model.Queue.Over():
		r.model.endQueue()
		require.NoError(r.t, r.rdb.Del(ctx, r.queue, r.places, r.wants).Err())
		return "queue ends"
	}
	r.tick()
	return "time passes"
}

// redisson is a client of Redisson 4.7, which asks for one permit, or gives it back. (The commands are
// those of RPermitExpirableSemaphore, without a clock of its own.)
func (r *replay) redisson() string {
	ctx, keys, id := r.t.Context(), []string{r.name, r.permits, r.channel}, r.owner(foreigner)
	defer r.heard() // what it says on the channel
	if r.model.of(foreigner) != nil {
		require.NoError(r.t, r.rdb.Eval(ctx, `
			if redis.call('zrem', KEYS[2], ARGV[1]) ~= 1 then return 0 end
			redis.call('publish', KEYS[3], redis.call('incrby', KEYS[1], 1))
			return 1`, keys, id).Err())
		r.model.foreignGives()
		return "Redisson gives"
	}
	what, ended := "Redisson is refused", uint8(0)
	if list := r.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{Key: r.permits, ByScore: true, Start: "-inf", Stop: r.now, Count: 1}).Val(); len(list) > 0 {
		owner, _, _ := strings.Cut(list[0], "/")
		for _, p := range r.model.out {
			if p.owner != 0 && r.owner(p.owner) == owner {
				what, ended = "Redisson takes back", p.owner
			}
		}
	}
	require.NoError(r.t, r.rdb.Eval(ctx, `
		local expired = redis.call('zrangebyscore', KEYS[2], 0, ARGV[3], 'limit', 0, 1)
		if #expired > 0 then
			redis.call('zrem', KEYS[2], unpack(expired))
			redis.call('incrby', KEYS[1], #expired)
		end
		local value = redis.call('get', KEYS[1])
		if value == false or tonumber(value) < 1 then return 0 end
		redis.call('decrby', KEYS[1], 1)
		redis.call('zadd', KEYS[2], ARGV[2], ARGV[1])
		local ttl = redis.call('pttl', KEYS[1])
		if ttl > 0 then redis.call('pexpire', KEYS[2], ttl) end
		return 1`, keys, id, r.now+r.millis(r.terms.Lease), r.now).Err())
	if r.model.foreignTakes(&r.terms, ended) && ended == 0 {
		what = "Redisson takes"
	}
	return what
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

// tick takes a tick off all times.
func (r *replay) tick() {
	ctx := r.t.Context()
	r.model.tick()
	switch left := ticksLeft(r.rdb.PTTL(ctx, r.token).Val()); {
	case left == 1:
		require.NoError(r.t, r.rdb.Del(ctx, r.token).Err())
	case left > 1 && left != model.Endless:
		require.NoError(r.t, r.rdb.PExpire(ctx, r.token, time.Duration(left-1)*tickLength-tickLength/2).Err())
	}
	r.age(tickLength)
	r.forgetOld()
}

// age takes a time off all ends and deadlines. Those that are none say since when they are so.
func (r *replay) age(by time.Duration) {
	now, err := r.rdb.Eval(r.t.Context(), `
		for _, key in ipairs(KEYS) do
			local some = redis.call('zrange', key, 0, -1, 'withscores')
			for i = 1, #some, 2 do
				redis.call('zincrby', key, tonumber(some[i + 1]) > 0 and -ARGV[1] or ARGV[1], some[i])
			end
		end
		local time = redis.call('time')
		return time[1] * 1000 + math.floor(time[2] / 1000)`, []string{r.permits, r.places}, by.Milliseconds()).Int64()
	require.NoError(r.t, err)
	r.now = now
}

// forgetOld takes out what says since when somebody was handed permits, where that is longer ago than a
// place counts. The scripts do that when the next claim ends, which is no rule of the model's.
func (r *replay) forgetOld() {
	ctx, old := r.t.Context(), float64(r.now-ticks(placeTicks).Milliseconds())
	for _, z := range r.rdb.ZRangeWithScores(ctx, r.places, 0, -1).Val() {
		if z.Score >= 0 || -z.Score > old {
			continue
		}
		for _, p := range r.model.out {
			if p.owner != 0 && r.owner(p.owner) == z.Member {
				r.model.unmark(p.owner)
				require.NoError(r.t, r.rdb.ZRem(ctx, r.places, z.Member).Err())
				break
			}
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
			r.differ("token %d is %d at the server, where %d is %d", model, real, m, other)
		}
	}
	r.real[model] = real
}
