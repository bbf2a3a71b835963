package versions_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// kinds are those that the worker has. The last one is a redlock.
var kinds = []string{"rlock", "keep", "fairlock", "rwlock", "multilock", "semaphore", "election", "redlock"}

func needsOld(t *testing.T) {
	if programs.missing != nil {
		redistest.Unavailable(t, "no earlier version to run beside: "+programs.missing.Error())
	}
}

// eachWay runs a test for some kinds, with the earlier version first, and with this one first.
func eachWay(t *testing.T, kinds []string, test func(t *testing.T, at place, kind, one, other string)) {
	needsOld(t)
	single, several := newPlace(t, "rlock"), newPlace(t, "redlock")
	for _, kind := range kinds {
		at := single
		if kind == "redlock" {
			at = several
		}
		for way, pair := range map[string][2]string{
			"old to new": {programs.old, programs.present}, "new to old": {programs.present, programs.old},
		} {
			t.Run(kind+"/"+way, func(t *testing.T) { test(t, at, kind, pair[0], pair[1]) })
		}
	}
}

// place is where locks of a kind are: one server, or three masters.
type place []*redistest.Server

func newPlace(t *testing.T, kind string) place {
	if kind == "redlock" {
		return redistest.StartMasters(t, 3)
	}
	return redistest.StartMasters(t, 1)
}

// addr is where the workers find it.
func (at place) addr() string {
	var list []string
	for _, srv := range at {
		list = append(list, srv.Addr())
	}
	return strings.Join(list, ",")
}

// first is a client of the server, or of one of the masters.
func (at place) first(t *testing.T) *redis.Client { return at[0].Client(t) }

// TestRenew: one version renews beyond the lease, the other waits and has the lock at the unlock; and back. Tokens grow.
func TestRenew(t *testing.T) {
	eachWay(t, kinds, func(t *testing.T, at place, kind, one, other string) {
		t.Parallel()
		longer(t, func(name string, lease time.Duration) bool {
			rdb := at.first(t)
			a := start(t, one, at.addr(), kind, name, lease.String(), "hold")
			token := a.held()
			b := start(t, other, at.addr(), kind, name, lease.String(), "hold")
			waits(t, rdb, name, a, b)
			passes(t, rdb, 2*lease, a, b)
			if slow(t, at, kind, name, lease, a, b) {
				return false
			}
			a.unlocks()
			next := b.held()
			require.Greater(t, next, token)
			a.Told("")
			b.unlocks()
			require.Greater(t, a.held(), next)
			return true
		})
	})
}

// longer runs a story, again with longer leases if this machine is too slow to tell it; the longest one must do.
func longer(t *testing.T, story func(name string, lease time.Duration) (told bool)) {
	t.Helper()
	for try, lease := range []time.Duration{2 * time.Second, 6 * time.Second, 20 * time.Second} {
		if story(fmt.Sprint(t.Name(), ":", try), lease) {
			return
		}
		t.Log("the machine is too slow for a lease of", lease)
	}
	t.Fatal("the lock was lost, whatever its lease")
}

// slow reports whether the holder lost an unclaimed lock: it must know, and have stopped trusting it before the next grant.
func slow(t *testing.T, at place, kind, name string, lease time.Duration, a, b *process) bool {
	if len(a.Lines)+len(b.Lines) == 0 {
		return false
	}
	until, next := a.lost(), b.held()
	require.Greater(t, at.since(t, kind, name, lease, next, b.owner), until, "two had it at the same time")
	return true
}

// anything reports whether a process has said something that nobody has read.
func anything(all []*process) bool {
	return slices.ContainsFunc(all, func(p *process) bool { return len(p.Lines) > 0 })
}

// TestTold: a waiter is told when the other version unlocks. Untold it would not notice: the lease outlasts the test.
func TestTold(t *testing.T) {
	eachWay(t, kinds[:len(kinds)-1], func(t *testing.T, at place, kind, one, other string) {
		t.Parallel()
		rdb, name := at.first(t), t.Name()
		a := start(t, one, at.addr(), kind, name, (10 * patience).String(), "hold")
		a.held()
		b := start(t, other, at.addr(), kind, name, (10 * patience).String(), "hold")
		waits(t, rdb, name)
		a.unlocks()
		b.held()
	})
}

// TestToldControl: whoever is not told does not notice that the lock is free, and the message is what tells.
func TestToldControl(t *testing.T) {
	srv := redistest.Start(t)
	name := "untold"
	start(t, programs.present, srv.Addr(), "rlock", name, (10 * patience).String(), "hold").held()
	b := start(t, programs.present, srv.Addr(), "rlock", name, (10 * patience).String(), "hold")
	// It asks once more when it listens, which would find the lock free. It looks who holds it each time it is refused.
	hearsOnly(t, srv, b, name, "hgetall", 2)
	b.held()
}

// hearsOnly makes what a waiter waits for so, once it has asked so often, in silence: it does not notice. Then it is told.
func hearsOnly(t *testing.T, srv *redistest.Server, waiting *process, name, asks string, times int64) {
	rdb := srv.Client(t)
	waits(t, rdb, name)
	require.Eventually(t, func() bool { return srv.CommandCalls(t)[asks] >= times }, patience, 5*time.Millisecond)
	require.EqualValues(t, 1, rdb.Del(t.Context(), name).Val())
	passes(t, rdb, time.Second)
	require.Empty(t, waiting.Lines, "it asks without being told, so that it is told shows nothing")
	require.NoError(t, rdb.Publish(t.Context(), channelOf(t, rdb, name), opened).Err())
}

// channelOf is where those listen who wait for a lock or latch.
func channelOf(t *testing.T, rdb *redis.Client, name string) string {
	channels := rdb.PubSubChannels(t.Context(), "*"+name+"*").Val()
	require.Len(t, channels, 1)
	return channels[0]
}

// TestToldQuorum: a redlock's unlock is told where the other version listens. A waiter shows nothing: it looks every second.
func TestToldQuorum(t *testing.T) {
	t.Parallel()
	eachWay(t, []string{"redlock"}, func(t *testing.T, at place, _, one, other string) {
		t.Parallel()
		a, b, said := overheard(t, at, one, other, 10*patience)
		require.Zero(t, said())
		a.unlocks()
		b.held()
		require.Eventually(t, func() bool { return said() >= 2 }, patience, 5*time.Millisecond, "not announced by a majority")
	})
}

// TestToldQuorumControl: where nobody unlocks, but dies, nothing is heard.
func TestToldQuorumControl(t *testing.T) {
	t.Parallel()
	needsOld(t)
	a, b, said := overheard(t, newPlace(t, "redlock"), programs.old, programs.present, 3*time.Second)
	a.Kill()
	b.held()
	require.Zero(t, said(), "something else is heard, so TestToldQuorum shows nothing")
}

// overhear waits until somebody listens for a lock or latch, and listens there too.
func overhear(t *testing.T, rdb *redis.Client, name string) <-chan *redis.Message {
	waits(t, rdb, name)
	return redistest.Subscribed(t, rdb, channelOf(t, rdb, name)).Channel()
}

// overheard has one hold a redlock for which another waits, and counts masters with a message where the latter listens.
func overheard(t *testing.T, at place, one, other string, lease time.Duration) (a, b *process, said func() int) {
	var heard []<-chan *redis.Message
	a = start(t, one, at.addr(), "redlock", t.Name(), lease.String(), "hold")
	a.held()
	b = start(t, other, at.addr(), "redlock", t.Name(), lease.String(), "hold")
	for _, srv := range at {
		heard = append(heard, overhear(t, srv.Client(t), t.Name()))
	}
	return a, b, func() (n int) {
		for _, c := range heard {
			if len(c) > 0 {
				n++
			}
		}
		return n
	}
}

// passes waits until so much time has passed at the server, or one of some processes says something.
func passes(t *testing.T, rdb *redis.Client, d time.Duration, unless ...*process) {
	from := rdb.Time(t.Context()).Val()
	require.Eventually(t, func() bool {
		now, err := rdb.Time(t.Context()).Result()
		return err == nil && now.Sub(from) > d || anything(unless)
	}, patience, 20*time.Millisecond)
}

// waits waits until somebody is subscribed to what wakes the waiters of a lock, or one of some processes says something.
func waits(t *testing.T, rdb *redis.Client, name string, unless ...*process) {
	require.Eventually(t, func() bool {
		plain, err := rdb.PubSubChannels(t.Context(), "*"+name+"*").Result()
		return err == nil && len(plain) > 0 || anything(unless)
	}, patience, 5*time.Millisecond, "nobody waits for %s", name)
}

// TestStorm: processes of both versions take one lock as fast as they can, and each looks whether it is alone.
func TestStorm(t *testing.T) {
	needsOld(t)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			tokens, said := storm(t, kind, "storm", "storm")
			require.Empty(t, said)
			if kind != "rwlock" { // readers share a token
				slices.Sort(tokens)
				require.Len(t, slices.Compact(tokens), 4*rounds, "a token was granted twice")
			}
		})
	}
	t.Run("control", func(t *testing.T) { // two names are two locks: the workers say so
		t.Parallel()
		_, said := storm(t, "rlock", "storm", "another")
		require.Contains(t, said, "not alone")
	})
}

// rounds is how often each process takes the lock in a storm.
const rounds = 50

// storm runs two processes of each version until they are done, and returns their tokens and what else they said.
func storm(t *testing.T, kind, old, present string) (tokens []uint64, said string) {
	at := newPlace(t, kind)
	var all []*process
	for _, side := range [][2]string{{programs.old, old}, {programs.present, present}} {
		for range 2 {
			all = append(all, start(t, side[0], at.addr(), kind, side[1], "30s", "storm", strconv.Itoa(rounds)))
		}
	}
	var rest strings.Builder
	for _, p := range all {
		for line := range p.Lines {
			token, err := strconv.ParseUint(line, 10, 64)
			if err != nil {
				fmt.Fprintln(&rest, line)
				continue
			}
			tokens = append(tokens, token)
		}
	}
	return tokens, rest.String()
}

// opened is the message that a latch is open, or a lock free.
const opened = "0"

func asks(t *testing.T, program string, srv *redistest.Server, name string) *process {
	return start(t, program, srv.Addr(), "latch", name, patience.String(), "ask")
}

// TestLatch: both versions count, what they count adds up, and both wait. When it is open this is said where they
// listen. TestLatchControl shows that this message lets a waiter in. (A waiter looks every half minute, too.)
func TestLatch(t *testing.T) {
	t.Parallel()
	eachWay(t, []string{"latch"}, func(t *testing.T, at place, _, one, other string) {
		t.Parallel()
		name, rdb := t.Name(), at.first(t)
		counting := []*process{asks(t, one, at[0], name), asks(t, other, at[0], name)}
		waiting := []*process{asks(t, one, at[0], name), asks(t, other, at[0], name)}
		counting[0].Told("set 4")
		require.Equal(t, "set true", counting[0].Says())
		counting[1].Told("set 5")
		require.Equal(t, "set false", counting[1].Says(), "it is set already")
		for _, p := range waiting {
			p.Told("wait")
		}
		heard := overhear(t, rdb, name)
		for left := 3; left >= 0; left-- {
			require.False(t, anything(waiting), "open before all have counted")
			counting[left%2].Told("count")
			require.Equal(t, fmt.Sprint("left ", left), counting[left%2].Says())
		}
		require.Equal(t, opened, kindtest.Receive(t, "it is open", heard).Payload)
		for i, p := range counting {
			require.Equal(t, "open", waiting[i].Says())
			p.Told("wait")
			require.Equal(t, "open", p.Says(), "and it is for whoever comes late")
			p.Told("count")
			require.Equal(t, "left 0", p.Says())
		}
	})
}

// TestLatchControl: who is not told that a latch is open does not notice, in either version, and the message is what tells.
func TestLatchControl(t *testing.T) {
	t.Parallel()
	needsOld(t)
	for name, program := range map[string]string{"old": programs.old, "new": programs.present} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			p := asks(t, program, srv, name)
			p.Told("set 1")
			require.Equal(t, "set true", p.Says())
			// It looks once more when it listens, which would find the latch open. Each look asks once for the time it has.
			asked := srv.CommandCalls(t)["pttl"]
			p.Told("wait")
			hearsOnly(t, srv, p, name, "pttl", asked+2)
			require.Equal(t, "open", p.Says())
		})
	}
}
