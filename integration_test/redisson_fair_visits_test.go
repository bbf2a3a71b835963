package integration_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// visits is a random history of a queue of ours and Redisson's, live and dead, in virtual time: a step takes no real time.
type visits struct {
	java
	rnd     *rand.Rand
	scripts map[*lua.Script]*lua.Script // what is run in place of a script
	last    int                         // number of the last waiter
	threads []int                       // of Redisson's, that wait
	waits   map[int]time.Duration       // for so long each
	live    map[string]bool             // ours that poll; the others are dead
	silent  time.Duration               // since the last poll
	steps   []string
}

const (
	visitLease = 30 * time.Second
	visitPlace = 15 * time.Second
	visitPoll  = 10 * time.Second // at the latest
)

func (v *visits) run(s *lua.Script, args ...any) lua.Reply {
	if other := v.scripts[s]; other != nil {
		s = other
	}
	r, err := lua.Run(v.Context(), v.rdb, s.Call(append([]any{
		javaName, "redisson_lock_token:{fair}", javaQueue, javaEnds, javaChannel,
	}, args...)...))
	require.NoError(v, err)
	return r
}

// poll is of our client, with its waiters that live. Who holds the lock then waits no longer.
func (v *visits) poll() {
	args := []any{"go", "PUBLISH", visitLease.Milliseconds(), 330000, visitPlace.Milliseconds()}
	for _, owner := range slices.Sorted(maps.Keys(v.live)) {
		args = append(args, owner)
	}
	delete(v.live, v.run(lua.FairPoll, args...).Poll().Holder)
	v.silent = 0
}

// pass lets so much time go by, and none but that: all deadlines come nearer. Who lives polls in time.
func (v *visits) pass(d time.Duration) {
	for {
		now := min(d, visitPoll-v.silent)
		require.NoError(v, passes.Run(v.Context(), v.rdb, []string{javaEnds, javaName, "looked"}, now.Milliseconds(),
			visitLease.Milliseconds()).Err())
		d -= now
		if v.silent += now; v.silent >= visitPoll {
			v.poll()
		}
		if d <= 0 {
			return
		}
	}
}

// passes puts all deadlines to where they are when so much time has passed since it was last run, however
// much has. The lease of who has the lock never ends. KEYS: deadlines, lock, when it was last run. ARGV: time, lease.
var passes = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local back = now - (redis.call('GET', KEYS[3]) or now) - ARGV[1]
for _, owner in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZINCRBY', KEYS[1], back, owner) end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('SET', KEYS[3], string.format('%.0f', now))
return 1`)

// holder is who has the lock, as far as it is one of those that live.
func (v *visits) holder() string {
	for owner := range v.rdb.HGetAll(v.Context(), javaName).Val() {
		return owner
	}
	return ""
}

func (v *visits) queue() []string { return v.rdb.LRange(v.Context(), javaQueue, 0, -1).Val() }

func (v *visits) step() {
	v.pass(0)
	holder := v.holder()
	switch n := v.rnd.IntN(20); {
	case n < 6: // one of ours queues, most of them alive
		v.last++
		owner := fmt.Sprintf("go:h%d", v.last)
		if v.rnd.IntN(6) == 0 {
			owner = fmt.Sprintf("gone:h%d", v.last)
		}
		v.steps = append(v.steps, "queue "+owner)
		r := v.run(lua.FairAcquire, owner, 30000, 330000, "0", visitPlace.Milliseconds(), 30000, "PUBLISH")
		if r.Status == lua.Denied && strings.HasPrefix(owner, "go:") {
			v.live[owner] = true
		}
	case n < 11: // Redisson's tryLock with a time, which mostly leaves
		v.last++
		v.wait = []time.Duration{100 * time.Millisecond, time.Minute, javaWait, javaWait, javaWait, javaWait}[v.rnd.IntN(6)]
		v.steps = append(v.steps, fmt.Sprint("java ", v.last, " ", v.wait))
		if !v.attempt(v.last) {
			v.threads, v.waits[v.last] = append(v.threads, v.last), v.wait
		}
		if len(v.threads) > 0 && v.rnd.IntN(4) == 0 {
			v.steps = append(v.steps, fmt.Sprint("java leaves ", v.threads[0]))
			v.wait = v.waits[v.threads[0]]
			v.giveUp(v.threads[0])
			v.threads = v.threads[1:]
		}
	case n < 18 && strings.HasPrefix(holder, "java:"): // it unlocks, and calls the next; count 0 is made 1 before
		var thread int
		_, _ = fmt.Sscanf(holder, "java:%d", &thread)
		v.steps = append(v.steps, "java unlocks "+holder)
		if v.rdb.HGet(v.Context(), javaName, holder).Val() == "0" {
			v.attempt(thread)
		}
		v.unlock(thread)
		v.javaNext()
	case n < 18:
		v.steps = append(v.steps, "release "+holder)
		delete(v.live, holder)
		v.run(lua.FairRelease, holder, "PUBLISH", 30000, 330000)
		if holder := v.holder(); holder != "" {
			delete(v.live, holder) // it waits no longer
		}
	default:
		v.steps = append(v.steps, "time passes")
		v.pass([]time.Duration{time.Second, 3 * time.Second, 20 * time.Second}[v.rnd.IntN(3)])
	}
}

// javaNext is what a called waiter of Redisson's does, or our client in its place.
func (v *visits) javaNext() {
	for i, thread := range v.threads {
		if q := v.queue(); len(q) > 0 && q[0] == v.owner(thread) {
			v.wait = v.waits[thread]
			v.attempt(thread)
			v.threads = append(v.threads[:i:i], v.threads[i+1:]...)
			return
		}
	}
	v.poll()
}

// wrong is a fault: a live waiter's place that is gone or, when one of our clients looked, one that counts for longer than 15 s
// and an hour for each of Redisson's before it. Mostly none looks: many grants come between two polls.
func (v *visits) wrong() string {
	looks := v.rnd.IntN(8) == 0
	if looks {
		v.steps = append(v.steps, "poll")
		for range 2 { // the first one may hand the lock off
			v.poll()
		}
	}
	rest := visitPlace + time.Second
	queued := map[string]bool{}
	now := v.rdb.Time(v.Context()).Val().UnixMilli()
	for _, owner := range v.queue() {
		queued[owner] = true
		if strings.HasPrefix(owner, "java:") {
			rest += time.Hour // as far as room is left for its wait
			continue
		}
		left := v.rdb.ZScore(v.Context(), javaEnds, owner).Val() - float64(now)
		if looks && left > float64(rest.Milliseconds()) {
			return fmt.Sprintf("the place of %s counts for %.0f s, and may for %v", owner, left/1000, rest)
		}
	}
	for owner := range v.live {
		if !queued[owner] {
			return "the place of " + owner + " is lost"
		}
	}
	return ""
}

// visit runs a history and returns what was wrong.
func visit(t *testing.T, seed uint64, edits map[*lua.Script][]string) string {
	v := &visits{
		java: java{T: t, rdb: redistest.Start(t).Client(t)}, rnd: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // for tests
		live: map[string]bool{}, waits: map[int]time.Duration{}, scripts: map[*lua.Script]*lua.Script{},
	}
	for script, edit := range edits {
		text := strings.NewReplacer(edit...).Replace(script.Text())
		require.NotEqual(t, script.Text(), text)
		v.scripts[script] = lua.New(script.Name(), text, 5)
	}
	redistest.Subscribed(t, v.rdb, javaChannel+":go")
	v.run(lua.FairAcquire, "first:h1", 30000, 330000, "0", 0, 1000, "PUBLISH")
	for range 300 {
		v.step()
		if wrong := v.wrong(); wrong != "" {
			return fmt.Sprintf("seed %d: %s\nafter %v\nqueue %v", seed, wrong, v.steps[max(0, len(v.steps)-30):], v.queue())
		}
	}
	return ""
}

// TestRedissonFairVisits: whatever waiters of Redisson's come and go, in random histories, no place
// of ours counts for longer than it may, and none of a waiter that lives is lost.
func TestRedissonFairVisits(t *testing.T) {
	t.Parallel()
	seed, histories := level.Seed(t), uint64(10)
	if testing.Short() {
		histories = 4
	}
	for i := range histories {
		wrong := visit(t, seed+i, nil)
		if wrong != "" && !level.Exploring() { // some waits are of 100 ms, by the server's clock, and a busy machine may be slower than that
			t.Logf("it counts if it is found again: %s", wrong)
			wrong = visit(t, seed+i, nil)
		}
		require.Empty(t, wrong)
	}
}

// TestRedissonFairVisitsControls: what each rule is against is found within a few histories.
func TestRedissonFairVisitsControls(t *testing.T) {
	t.Parallel()
	shortened := map[*lua.Script][]string{}
	for _, s := range []*lua.Script{lua.FairAcquire, lua.FairRelease, lua.FairPoll} {
		shortened[s] = []string{"math.floor(needed) + deadline % 1)", "now + silence + deadline % 1)"}
	}
	for name, edits := range map[string]map[*lua.Script][]string{
		"a place lasts longer than the one before": {
			lua.FairAcquire: {"deadline, others = behind(place)",
				"deadline = math.floor(math.max(last + place, (behind(place))))"},
			lua.FairPoll: {" or room and deadline > needed", ""},
		},
		"all that was left of the granted one's time is taken off": shortened,
		"room is forgotten when Redisson's have gone": {lua.FairAcquire: {"deadline = deadline + 0.5",
			"deadline = deadline + (others and 0.5 or 0)"}},
		"polls take nothing away": {lua.FairPoll: {" or room and deadline > needed", ""}},
		"no room": {lua.FairAcquire: {"deadline, others = behind(place)", "deadline = now + place"},
			lua.FairPoll: {"asked[owner] and deadline < needed or", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "room is") { // which takes ten times as many histories as the others
				level.ForAll(t)
			}
			t.Parallel()
			for seed := range uint64(40) {
				if found := visit(t, seed, edits); found != "" {
					t.Logf("proof: fair queue with Redisson: without %q: %.120s", name, found)
					return
				}
			}
			t.Error("nothing was found")
		})
	}
}

// What Redisson 4.7 sends for its fair lock, recorded; the scripts do the same commands. Its times are those of its clients.

const (
	javaName    = "fair"
	javaQueue   = "redisson_lock_queue:{fair}"
	javaEnds    = "redisson_lock_timeout:{fair}"
	javaChannel = "redisson_lock__channel:{fair}"
	javaWait    = 300 * time.Second // fairLockWaitTimeout
)

// javaPurge begins its scripts, except that for giving up: expired heads go, up to the first with a later deadline or none.
const javaPurge = `
local call = redis.call
local function purge(now)
  while true do
    local first = call('LINDEX', KEYS[2], 0)
    local score = first and call('ZSCORE', KEYS[3], first)
    if not score or tonumber(score) > tonumber(now) then return end
    call('ZREM', KEYS[3], first)
    call('LPOP', KEYS[2])
  end
end
`

// KEYS: lock, queue, deadlines. ARGV: lease, owner, wait, now. Nil is a grant.
var javaAcquire = redis.NewScript(javaPurge + `
local name, lease, owner, wait, now = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
purge(now)
if call('EXISTS', name) == 0 and (call('EXISTS', KEYS[2]) == 0 or call('LINDEX', KEYS[2], 0) == owner) then
  call('LPOP', KEYS[2])
  call('ZREM', KEYS[3], owner)
  for _, other in ipairs(call('ZRANGE', KEYS[3], 0, -1)) do call('ZINCRBY', KEYS[3], -wait, other) end
  call('HSET', name, owner, 1)
  call('PEXPIRE', name, lease)
  return nil
end
if call('HEXISTS', name, owner) == 1 then
  call('HINCRBY', name, owner, 1)
  call('PEXPIRE', name, lease)
  return nil
end
if call('ZSCORE', KEYS[3], owner) then return math.max(0, call('PTTL', name)) end
local ttl, last = call('PTTL', name), call('LINDEX', KEYS[2], -1)
if last and last ~= owner and call('ZSCORE', KEYS[3], last) then ttl = tonumber(call('ZSCORE', KEYS[3], last)) - now end
if call('ZADD', KEYS[3], ttl + wait + now, owner) == 1 then call('RPUSH', KEYS[2], owner) end
return ttl`)

// KEYS: lock, queue, deadlines, channel. ARGV: lease, owner, now. Nil: another's. 0: still held. 1: free; then who was called.
var javaUnlock = redis.NewScript(javaPurge + `
local name, owner = KEYS[1], ARGV[2]
purge(ARGV[3])
local function tell()
  local first = call('LINDEX', KEYS[2], 0)
  if first then call('PUBLISH', KEYS[4] .. ':' .. first, '0') end
  return 1
end
if call('EXISTS', name) == 0 then return tell() end
if call('HEXISTS', name, owner) == 0 then return nil end
if call('HINCRBY', name, owner, -1) > 0 then
  call('PEXPIRE', name, ARGV[1])
  return 0
end
call('DEL', name)
return tell()`)

// KEYS: queue, deadlines. ARGV: owner, wait.
var javaFailed = redis.NewScript(`
local behind = false
for _, other in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if behind then redis.call('ZINCRBY', KEYS[2], -ARGV[2], other) end
  behind = behind or other == ARGV[1]
end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('LREM', KEYS[1], 0, ARGV[1])`)

// java is a client of Redisson. Its threads are numbered.
type java struct {
	*testing.T
	rdb  *redis.Client
	wait time.Duration // of who comes or goes
}

func (j *java) owner(thread int) string { return "java:" + strconv.Itoa(thread) }

// attempt is the script of lock(): the lock, or a place.
func (j *java) attempt(thread int) (granted bool) {
	err := javaAcquire.Run(j.Context(), j.rdb, []string{javaName, javaQueue, javaEnds},
		visitLease.Milliseconds(), j.owner(thread), j.wait.Milliseconds(), time.Now().UnixMilli()).Err()
	if errors.Is(err, redis.Nil) {
		return true
	}
	require.NoError(j, err)
	return false
}

func (j *java) unlock(thread int) {
	n, err := javaUnlock.Run(j.Context(), j.rdb, []string{javaName, javaQueue, javaEnds, javaChannel},
		visitLease.Milliseconds(), j.owner(thread), time.Now().UnixMilli()).Int64()
	require.NoError(j, err)
	require.EqualValues(j, 1, n, "it still holds it")
}

// giveUp is what follows when the time of a tryLock(wait) is over.
func (j *java) giveUp(thread int) {
	err := javaFailed.Run(j.Context(), j.rdb, []string{javaQueue, javaEnds}, j.owner(thread), j.wait.Milliseconds()).Err()
	if !errors.Is(err, redis.Nil) {
		require.NoError(j, err)
	}
}
