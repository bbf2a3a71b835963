package permits

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/fidelity"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
)

// placeTicks is how long a place counts. That is a part of the scripts, so theirs is replaced.
const placeTicks = 3

// requesters: three of one client, of whom one wants two permits, and one each of two others, of whom one wants two.
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
	fidelity.Like(t, "permits model", fidelity.Size{Histories: 100, Short: 40, Length: 80}, begin, server(t), []string{
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
		refused := got.QueueRefusal()
		h.compareWho(c.What, want.left, strings.Join(refused.Fields(), " "))
		h.comparePermits(c.What, refused.Permits)
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
		c.Call = h.call(lua.SemJoin, asked, never, claim, "PUBLISH", keep, placeMillis)
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

// left is what a script says of the lease that ends first.
func (h *history) left(ticks uint8) fidelity.Left {
	if ticks == none {
		return placeTicks
	}
	return fidelity.Left(ticks)
}

// comparePermits: a refusal and a poll say how many permits there are, and how many of them are free.
func (h *history) comparePermits(what string, says lua.Permits) {
	if says.All != int64(h.all()) || says.Free != int64(h.free) {
		h.Differ("%s says %+v, and the model has %d of %d free", what, says, h.free, h.all())
	}
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
	h.comparePermits("poll", reply.Permits)
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

// redisson is a client of Redisson 4.7 that takes a permit or returns it, as RPermitExpirableSemaphore does, without a clock.
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

// forgetOld drops notes of permits handed longer ago than a place counts, as scripts do later; the model has no such rule.
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
