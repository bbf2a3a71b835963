package permits

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/fidelity"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/lua"
)

// left is what a script says of the lease that ends first.
func (h *history) left(ticks uint8) fidelity.Left {
	if ticks == none {
		return placeTicks
	}
	return fidelity.Left(ticks)
}

// compareWho: who has the permit that ends first is one of those whose permits do.
func (h *history) compareWho(what string, left uint8, who string) {
	for _, p := range h.out {
		if p.n > 0 && p.left == left && (who == "" && p.owner == foreigner || h.owner(p.owner) == who) {
			return
		}
	}
	if left != none || who != "" {
		h.Differ("%s named %q, and the model has %v", what, who, h.out)
	}
}

// comparePoll: those who were handed permits come in any order, and then those who have no place.
func (h *history) comparePoll(want *answer, got lua.Reply, asked []uint8) {
	var given, missing []string
	for i, owner := range asked {
		if want.missing&(1<<i) != 0 {
			missing = append(missing, h.Owner(owner))
		}
	}
	for _, owner := range requesters {
		if want.given&(1<<owner) != 0 {
			given = append(given, h.Owner(owner))
		}
	}
	called := ""
	if want.foreign {
		called = "redisson"
	}
	reply := got.Poll()
	told := reply.Missing
	first := slices.Clone(told[:min(len(given), len(told))])
	if len(first) == 0 {
		h.compareWho("poll", want.left, reply.Holder)
	} else {
		h.Same("poll", first[0], reply.Holder)
	}
	slices.Sort(first)
	slices.Sort(given)
	h.Same("poll", slices.Concat(given, missing), slices.Concat(first, told[len(first):]))
	for i, value := range []any{h.left(want.left), fidelity.Other{}, fidelity.Other{}, called, model.Bit(want.heard), 0} {
		h.Same("poll", value, got.Value(i))
	}
}

// Expected returns the keys. That each has an end is enough.
func (h *history) Expected() []fidelity.Key {
	permits, places := fidelity.Until{}, map[string]uint8{}
	for _, p := range h.out {
		if p.handed {
			places[h.owner(p.owner)] = model.Endless
		}
		first := int8(model.Bit(p.torn)) //nolint:gosec // 0 or 1
		for i := first; i < p.n+first; i++ {
			if permit := h.owner(p.owner); i > 0 {
				permits[permit+"/"+strconv.Itoa(int(i)+1)] = p.left
			} else {
				permits[permit] = p.left
			}
		}
	}
	queue, wants := []string(nil), fidelity.Hash{}
	for _, p := range model.Under(h.Queue[:]) {
		owner, n := h.Owner(p.Owner), h.terms.wants(p.Owner)
		queue = append(queue, owner)
		if places[owner] = p.Left; n > 1 {
			wants[owner] = int(n)
		}
	}
	have, lives := h.Places(h.places, h.queue)
	queued := h.RDB.ZRange(h.T.Context(), h.queue, 0, -1).Val()
	maps.DeleteFunc(have, func(owner string, _ uint8) bool { // clients that let a claim end
		return !strings.Contains(owner, ":")
	})
	if !maps.Equal(have, places) || !slices.Equal(queued, queue) || slices.Contains(lives[:], -1) {
		h.Differ("in the queue are %v with %v, the model's are %v with %v; its keys live for %v", queued, have, queue, places, lives)
	}
	return []fidelity.Key{
		fidelity.KeyIf(h.counted, h.Name, int(h.free), fidelity.Some),
		fidelity.KeyIf(h.Token != 0, h.token, fidelity.Token(h.Token), h.TokenTTL),
		{Name: h.permits, Value: permits, TTL: fidelity.Some},
		fidelity.KeyIf(len(wants) > 0, h.wants, wants, fidelity.Some),
	}
}

// elsewise is a step that is no command of ours.
func (h *history) elsewise(n int) string {
	switch {
	case n == 54:
		h.keys = keys{Store: line.Store{Clock: h.Clock}}
		h.Lose(h.Keys...)
		return "keys lost"
	case n == 55 && h.Token != 0 && h.Token < 100: // as after the clock was set back
		h.Token += 100
		h.Ahead(h.token, h.Token)
		return "token ahead"
	case n < 59:
		h.Toggle(h.Few(3))
		return "mailbox"
	case n < 66:
		return h.redisson()
	case n < 70 && h.Queue.Over():
		h.endQueue()
		h.Lose(h.queue, h.places, h.wants)
		return "queue ends"
	}
	h.tick()
	h.Elapse(fidelity.Key{Name: h.token})
	h.age(fidelity.Tick)
	h.forgetOld()
	return "time passes"
}

// redisson is a client of Redisson 4.7, which asks for one permit, or gives it back. (The commands are
// those of RPermitExpirableSemaphore, without a clock of its own.)
func (h *history) redisson() string {
	ctx, keys, id := h.T.Context(), []string{h.Name, h.permits, h.Channel}, h.owner(foreigner)
	defer h.Heard() // what it says on the channel
	if h.of(foreigner) != nil {
		require.NoError(h.T, h.RDB.Eval(ctx, `
			if redis.call('zrem', KEYS[2], ARGV[1]) ~= 1 then return 0 end
			redis.call('publish', KEYS[3], redis.call('incrby', KEYS[1], 1))
			return 1`, keys, id).Err())
		h.foreignGives()
		return "Redisson gives"
	}
	what, ended := "Redisson is refused", uint8(0)
	if list := h.RDB.ZRangeArgs(ctx, redis.ZRangeArgs{Key: h.permits, ByScore: true, Start: "-inf", Stop: h.now, Count: 1}).Val(); len(list) > 0 {
		owner, _, _ := strings.Cut(list[0], "/")
		for _, p := range h.out {
			if p.owner != 0 && h.owner(p.owner) == owner {
				what, ended = "Redisson takes back", p.owner
			}
		}
	}
	require.NoError(h.T, h.RDB.Eval(ctx, `
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
		return 1`, keys, id, h.now+h.Millis(h.Lease), h.now).Err())
	if h.foreignTakes(&h.terms, ended) && ended == 0 {
		what = "Redisson takes"
	}
	return what
}

// age takes a time off all ends and deadlines. Those that are none say since when they are so.
func (h *history) age(by time.Duration) {
	now, err := h.RDB.Eval(h.T.Context(), `
		for _, key in ipairs(KEYS) do
			local some = redis.call('zrange', key, 0, -1, 'withscores')
			for i = 1, #some, 2 do
				redis.call('zincrby', key, tonumber(some[i + 1]) > 0 and -ARGV[1] or ARGV[1], some[i])
			end
		end
		local time = redis.call('time')
		return time[1] * 1000 + math.floor(time[2] / 1000)`, []string{h.permits, h.places}, by.Milliseconds()).Int64()
	require.NoError(h.T, err)
	h.now = now
}

// forgetOld takes out what says since when somebody was handed permits, where that is longer ago than a
// place counts. The scripts do that when the next claim ends, which is no rule of the model's.
func (h *history) forgetOld() {
	ctx, old := h.T.Context(), float64(h.now-placeMillis)
	for _, z := range h.RDB.ZRangeWithScores(ctx, h.places, 0, -1).Val() {
		if z.Score >= 0 || -z.Score > old {
			continue
		}
		for _, p := range h.out {
			if p.owner != 0 && h.owner(p.owner) == z.Member {
				h.unmark(p.owner)
				require.NoError(h.T, h.RDB.ZRem(ctx, h.places, z.Member).Err())
				break
			}
		}
	}
}
