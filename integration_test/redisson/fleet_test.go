package redisson

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
)

// Leases of a fleet: a missed wake-up costs the long one, which no test waits for. Tests wait for the short one or its renewal.
const (
	long  = 4 * time.Minute
	short = 5 * time.Second
)

// fleet is what a topology is used by: two clients of each side with the long lease, and one with the short.
type fleet struct {
	top  topology.Topology
	rdb  redis.UniversalClient // of nobody
	java [2]*Client
	ours [2]*holdfast.Client

	briefJava *Client
	briefOurs *holdfast.Client

	prefix string // that both sides put in front of names
}

func newFleet(t *testing.T, top topology.Topology) *fleet {
	return newFleetWith(t, top, Settings{}, holdfast.Options{})
}

// newFleetWith is newFleet with settings of each side.
func newFleetWith(t *testing.T, top topology.Topology, theirs Settings, ours holdfast.Options) *fleet {
	w := Shared(t)
	f := &fleet{top: top, rdb: topology.Admin(t, top), prefix: ours.Prefix}
	java := func(lease time.Duration) *Client {
		theirs.Watchdog = millis(lease)
		return w.Connect(t, top, theirs)
	}
	for i := range f.java {
		f.java[i] = java(long)
		f.ours[i] = f.client(t, long, ours)
	}
	f.briefJava, f.briefOurs = java(short), f.client(t, short, ours)
	return f
}

// client makes a client of the library, closed when the test ends.
func (f *fleet) client(t *testing.T, lease time.Duration, opts holdfast.Options) *holdfast.Client {
	opts.Lease, opts.Linger = lease, time.Millisecond // without a linger, because tests count who listens
	return kindtest.NewClient(t, f.top.Connect(t), &opts)
}

// mutex is what the kinds of lock have in common.
type mutex = kindtest.Mutex

// kind is a kind of lock of both sides.
type kind struct {
	theirs string
	make   func(c *holdfast.Client, name string) mutex
	// suffix is what Redisson adds to its owner in Redis
	suffix string
	// bounded says that Redisson's waiters miss wake-ups, so that it takes the lease
	bounded bool
}

var kinds = []kind{
	{theirs: "lock", make: func(c *holdfast.Client, name string) mutex { return rlock.New(c, name) }},
	{theirs: "fenced", make: func(c *holdfast.Client, name string) mutex { return rlock.New(c, name) }},
	{theirs: "fair", make: func(c *holdfast.Client, name string) mutex { return fairlock.New(c, name) }},
	{theirs: "write", make: func(c *holdfast.Client, name string) mutex { return workload.Writer{RWMutex: rwlock.New(c, name)} }, suffix: ":write",
		bounded: true},
}

// story is one lock in a fleet.
type story struct {
	*testing.T
	*fleet
	kind
	ctx  context.Context
	name string // in Redis
	// those that lock in the background; they end with ctx
	group *sync.WaitGroup
}

// tell runs a story.
func (f *fleet) tell(t *testing.T, k kind, name string, run func(s *story)) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*Patience)
	s := f.in(ctx, t, k, name)
	defer s.group.Wait()
	defer cancel()
	run(s)
}

// in is the story of a lock, told until ctx ends.
func (f *fleet) in(ctx context.Context, t *testing.T, k kind, name string) *story {
	return &story{T: t, fleet: f, kind: k, ctx: ctx, name: name, group: new(sync.WaitGroup)}
}

// given is the name of the lock as clients are given it.
func (s *story) given() string { return strings.TrimPrefix(s.name, s.prefix) }

// ask is Redisson's answer to a command to this lock.
func (s *story) ask(t *Thread, op string) Reply {
	return t.Do(s.T, Ask{Op: op, Kind: s.theirs, Name: s.given()})
}

// call is ask for goroutines.
func (s *story) call(t *Thread, op string) error {
	_, err := t.Call(s.ctx, Ask{Op: op, Kind: s.theirs, Name: s.given()})
	return err
}

// start is ask, without the answer.
func (s *story) start(t *Thread, op string) *Pending {
	return t.Start(Ask{Op: op, Kind: s.theirs, Name: s.given()})
}

// thread is a thread of one of the clients with long leases.
func (s *story) thread(i int) *Thread { return s.java[i].Thread(s.T) }

// mutex is the lock on one of our clients with long leases.
func (s *story) mutex(i int) mutex { return s.make(s.ours[i], s.given()) }

// mustBe checks who has the lock.
func (s *story) mustBe(owner string, count int) {
	state := kindtest.State(s, s.mutex(0))
	require.Equal(s, owner, state.Owner)
	require.Equal(s, count, state.Count)
}

// javaLocks has a thread lock, and checks that it has the lock.
func (s *story) javaLocks(t *Thread, op string) {
	require.NoError(s, s.ask(t, op).Err())
	s.mustBe(t.Owner, 1)
}

// must is a hold without an error.
func (s *story) must(h *holdfast.Hold, err error) *holdfast.Hold {
	require.NoError(s, err)
	return h
}

// wait has one of ours wait for the lock, and returns when it does.
func (s *story) wait(m mutex, opts ...holdfast.Option) *kindtest.Pending {
	before := s.settled()
	c := s.later(m.Lock, opts...)
	s.until("ours waits", func() bool { return s.waiting() > before })
	return c
}

// javaWaits is wait for a thread of Redisson's.
func (s *story) javaWaits(t *Thread, op string) *Pending {
	before := s.settled()
	p := s.start(t, op)
	s.waits(p, before)
	return p
}

// waits returns when a thread of Redisson's waits, as one more than those before. Where it has a place, that is enough.
// Elsewhere it must sleep: it looks once more when it listens, and before it sleeps it may miss a message (W4).
func (s *story) waits(p *Pending, before int64) {
	s.until("Redisson's waits", func() bool {
		return p.Answered() || s.waiting() > before && (p.ask.Kind == "fair" || p.Sleeps(s.T))
	})
	require.False(s, p.Answered(), "it waits")
}

// channels are those on which Redisson's waiters of this kind of lock listen, ours too.
func (s *story) channels() string {
	if s.theirs == "write" || s.theirs == "read" {
		return "redisson_rwlock:" + tagged(s.name)
	}
	return "redisson_lock__channel:" + tagged(s.name)
}

// waiting is how many places there are in the queue, or how many connections wait for messages.
func (s *story) waiting() (n int64) {
	if s.theirs == "fair" {
		n, err := s.rdb.LLen(s.ctx, "redisson_lock_queue:"+tagged(s.name)).Result()
		require.NoError(s, err)
		return n
	}
	n = s.listeners(s.ctx, s.channels())
	if s.theirs == "write" || s.theirs == "read" { // ours have places, and do not all listen there
		n += int64(kindtest.State(s, s.mutex(0)).Waiters)
	}
	return n
}

// settled is waiting without those that left, which listen a moment longer. Without places nobody else may wait.
func (s *story) settled() int64 {
	if s.theirs == "fair" {
		return s.waiting()
	}
	s.until("nobody listens any more", func() bool { return s.waiting() == 0 })
	return 0
}

// listeners is how many connections have subscribed to a channel, in either way.
func (f *fleet) listeners(ctx context.Context, channel string) (n int64) {
	for _, node := range f.top.Nodes() {
		for _, which := range []string{"NUMSUB", "SHARDNUMSUB"} {
			reply, err := node.Try("PUBSUB", which, channel)
			if list, ok := reply.([]any); ok && err == nil && len(list) == 2 {
				n += list[1].(int64)
			}
		}
	}
	return n
}

// ended is how many keys expired on all servers: where no lease ends, the claims that Redisson's waiters left for two seconds.
func (f *fleet) ended(t *testing.T) (n int) {
	for _, node := range f.top.Nodes() {
		reply, err := node.Try("INFO", "stats")
		require.NoError(t, err)
		_, after, found := strings.Cut(fmt.Sprint(reply), "expired_keys:")
		require.True(t, found)
		digits, _, _ := strings.Cut(after, "\r")
		keys, err := strconv.Atoi(digits)
		require.NoError(t, err)
		n += keys
	}
	return n
}

// until waits for a condition.
func (s *story) until(what string, cond func() bool) {
	s.Helper()
	met := false
	redistest.Within(Patience, func() bool {
		met = cond()
		return met || s.ctx.Err() != nil
	})
	if !met {
		s.Fatalf("not in time: %s", what)
	}
}

// later locks in the background.
func (s *story) later(lock kindtest.Acquire, opts ...holdfast.Option) *kindtest.Pending {
	return kindtest.Begin(s.ctx, s, lock, opts...)
}

// got waits for what one of ours waits for.
func (s *story) got(p *kindtest.Pending) *holdfast.Hold {
	s.Helper()
	s.until("it is granted", p.Over)
	return p.Hold()
}

// mustUnlock gives a hold back.
func (s *story) mustUnlock(h *holdfast.Hold) { require.NoError(s, h.Unlock(s.ctx)) }

// mustNotHold checks that Redisson says so to a thread that unlocks.
func (s *story) mustNotHold(t *Thread) {
	r := s.ask(t, "unlock")
	require.True(s, r.Threw("IllegalMonitorStateException"), "%v", r.Err())
}

// nothingLeft checks that all keys of the lock are gone but that of its tokens.
func (s *story) nothingLeft() {
	tag := tagged(s.name)
	for _, key := range []string{s.name, "redisson_lock_queue:" + tag, "redisson_lock_timeout:" + tag} {
		n, err := s.rdb.Exists(s.ctx, key).Result()
		require.NoError(s, err)
		require.Zero(s, n, "%s is left: %s", key, s.dump())
	}
}

// nothingStays is nothingLeft where a hold of ours was lost: that the lock was handed to it is noted until the queue ends.
func (s *story) nothingStays() {
	tag := tagged(s.name)
	require.Zero(s, s.rdb.Exists(s.ctx, s.name).Val())
	for _, key := range []string{"redisson_lock_queue:" + tag, "redisson_lock_timeout:" + tag} {
		left, err := s.rdb.PTTL(s.ctx, key).Result()
		require.NoError(s, err)
		require.NotEqual(s, time.Duration(-1), left, "%s would stay: %s", key, s.dump())
	}
}

// dump is what stands under the lock's keys.
func (s *story) dump() string {
	tag := tagged(s.name)
	queue, ends := "redisson_lock_queue:"+tag, "redisson_lock_timeout:"+tag
	return fmt.Sprint(s.rdb.HGetAll(s.ctx, s.name).Val(), s.rdb.LRange(s.ctx, queue, 0, -1).Val(),
		s.rdb.ZRangeWithScores(s.ctx, ends, 0, -1).Val(), s.rdb.PTTL(s.ctx, ends).Val(), time.Now().UnixMilli())
}

// tagged is a name as it stands in derived keys.
func tagged(name string) string {
	if strings.Contains(name, "{") {
		return name
	}
	return "{" + name + "}"
}
