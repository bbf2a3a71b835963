package versions_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestKilled: one version's holder is killed. The other has the lock when the lease last renewed ends, and not before.
func TestKilled(t *testing.T) {
	t.Parallel()
	eachWay(t, kinds, func(t *testing.T, at place, kind, one, other string) {
		t.Parallel()
		longer(t, func(name string, lease time.Duration) bool {
			a := start(t, one, at.addr(), kind, name, lease.String(), "hold")
			token := a.held()
			b := start(t, other, at.addr(), kind, name, lease.String(), "hold")
			rdb := at.first(t)
			waits(t, rdb, name, a, b)
			passes(t, rdb, lease, a, b) // so it was renewed
			if slow(t, at, kind, name, lease, a, b) {
				return false
			}
			ends := at.ends(t, kind, name)
			a.Kill()
			next := b.held()
			require.Greater(t, next, token)
			require.GreaterOrEqual(t, at.since(t, kind, name, lease, next, b.owner), ends, "before the lease has ended")
			return true
		})
	})
}

// TestKilledControl: a lock that is granted before the lease of a killed holder ends is seen.
func TestKilledControl(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"rlock", "redlock"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			at, name, lease := newPlace(t, kind), "early", 10*patience // so that no machine is too slow for this
			a := start(t, programs.present, at.addr(), kind, name, lease.String(), "hold")
			a.held()
			b := start(t, programs.present, at.addr(), kind, name, lease.String(), "hold")
			for _, srv := range at {
				waits(t, srv.Client(t), name)
			}
			a.Kill()
			ends := at.ends(t, kind, name)
			for _, srv := range at {
				rdb := srv.Client(t)
				rdb.Del(t.Context(), name)
				rdb.Publish(t.Context(), keys.For(name).Channel, "0")
			}
			next := b.held()
			require.Less(t, at.since(t, kind, name, lease, next, b.owner), ends, "it is not seen, so TestKilled shows nothing")
		})
	}
}

// micros is a time as tokens are.
func micros(at time.Time) uint64 { return uint64(at.UnixMicro()) }

// ends is when the holder's lease ends by the server's clock, or a little before; in a quorum when a majority is free.
func (at place) ends(t *testing.T, kind, name string) uint64 {
	var ends []uint64
	for _, srv := range at {
		rdb := srv.Client(t)
		if kind == "semaphore" {
			out := rdb.ZRangeWithScores(t.Context(), keys.ForPermits(name).Ends, 0, -1).Val()
			require.Len(t, out, 1)
			return uint64(out[0].Score) * 1000
		}
		now := rdb.Time(t.Context()).Val() // before it is asked what is left from then on
		end := micros(now) + left(t, rdb, name)
		if kind == "multilock" {
			end = max(end, micros(now)+left(t, rdb, name+":fair"))
		}
		ends = append(ends, end)
	}
	return majority(ends)
}

// left is what is left of a key's life, in us. What it answers is rounded to milliseconds.
func left(t *testing.T, rdb *redis.Client, key string) uint64 {
	d := rdb.PTTL(t.Context(), key).Val()
	require.Positive(t, d, "%s has no holder whose lease ends", key)
	return uint64((d - time.Millisecond).Microseconds())
}

// since is when a lock was granted to its holder, by the server's clock. It is the token. In a quorum a token
// is proposed before, so there it is told by what is left of the lease, and may be a little later.
func (at place) since(t *testing.T, kind, name string, lease time.Duration, token uint64, owner string) uint64 {
	if kind != "redlock" {
		return token
	}
	const never = 1 << 62
	since := make([]uint64, len(at))
	for i, srv := range at {
		rdb := srv.Client(t)
		since[i] = never
		if rdb.HExists(t.Context(), name, owner).Val() {
			remains := rdb.PTTL(t.Context(), name).Val()
			since[i] = micros(rdb.Time(t.Context()).Val().Add(remains-lease)) + 1000
		}
	}
	granted := majority(since)
	require.Less(t, granted, uint64(never), "it has no majority")
	return granted
}

// majority is the time at which a majority has come so far.
func majority(times []uint64) uint64 {
	times = slices.Sorted(slices.Values(times))
	return times[len(times)/2]
}

// TestCut: connections of holder and waiter are cut again and again, beyond the lease. The one holds on, and then the other.
func TestCut(t *testing.T) {
	t.Parallel()
	eachWay(t, []string{"rlock", "fairlock", "rwlock", "semaphore", "redlock"}, func(t *testing.T, at place, kind, one, other string) {
		t.Parallel()
		longer(t, func(name string, lease time.Duration) bool {
			s := newStory(t, at, kind, one, other, name, lease)
			s.cuts()
			if slow(t, at, kind, name, lease, s.a.process, s.b.process) {
				return false
			}
			s.a.unlocks()
			require.Greater(t, s.b.held(), s.token)
			return true
		})
	})
}

// TestCutControl: the same with no renewal at all. The other has the lock, and the holder trusted it no longer than the server.
func TestCutControl(t *testing.T) {
	t.Parallel()
	eachWay(t, []string{"rlock", "redlock"}, func(t *testing.T, at place, kind, one, other string) {
		t.Parallel()
		const lease = 3 * time.Second
		s := newStory(t, at, kind, one, other, t.Name(), lease)
		for _, p := range s.a.proxies {
			p.On(renews, 0, faultproxy.DropRequest)
		}
		s.cuts()
		require.True(t, slow(t, at, kind, s.name, lease, s.a.process, s.b.process), "without renewals, so TestCut shows nothing")
	})
}

// renews matches what a holder sends: it renews, and nothing else.
var renews = faultproxy.Command("EVALSHA", "EVAL")

// story is of one who holds the lock and one who waits for it, each through proxies of its own.
type story struct {
	*testing.T
	at    place
	name  string
	lease time.Duration
	token uint64
	a, b  proxied
}

type proxied struct {
	*process
	proxies []*faultproxy.Proxy
}

func newStory(t *testing.T, at place, kind, one, other, name string, lease time.Duration) *story {
	s := &story{T: t, at: at, name: name, lease: lease}
	s.a = proxy(t, at, one, kind, name, lease)
	s.token = s.a.held()
	s.b = proxy(t, at, other, kind, name, lease)
	waits(t, at.first(t), name, s.a.process, s.b.process)
	return s
}

func proxy(t *testing.T, at place, program, kind, name string, lease time.Duration) (p proxied) {
	addr := ""
	for i, srv := range at {
		p.proxies = append(p.proxies, faultproxy.New(t, srv.Addr()))
		if i > 0 {
			addr += ","
		}
		addr += p.proxies[i].Addr()
	}
	p.process = start(t, program, addr, kind, name, lease.String(), "hold")
	return p
}

// cuts cuts all connections after each renewal, once the other listens again, for over a lease or until a process speaks.
func (s *story) cuts() {
	rdb, listening := s.at.first(s.T), faultproxy.Command("SUBSCRIBE")
	said := func() bool { return anything([]*process{s.a.process, s.b.process}) }
	for from := rdb.Time(s.Context()).Val(); !said() && rdb.Time(s.Context()).Val().Sub(from) < 3*s.lease/2; {
		sent, heard := s.a.proxies[0].Seen(renews), s.b.proxies[0].Seen(listening)
		for i := range s.at {
			s.a.proxies[i].CutAll()
			s.b.proxies[i].CutAll()
		}
		require.Eventually(s, func() bool {
			return said() || s.a.proxies[0].Seen(renews) > sent && s.b.proxies[0].Seen(listening) > heard
		}, patience, 5*time.Millisecond, "nobody renews, or nobody listens")
	}
}

// TestPaused: servers are silent until the holder has lost the lock by its clock; then the other has it, with a greater token.
func TestPaused(t *testing.T) {
	t.Parallel()
	eachWay(t, []string{"rlock", "fairlock", "redlock"}, func(t *testing.T, _ place, kind, one, other string) {
		t.Parallel()
		at := newPlace(t, kind)
		longer(t, func(name string, lease time.Duration) bool {
			s := newStory(t, at, kind, one, other, name, lease)
			if slow(t, at, kind, name, lease, s.a.process, s.b.process) {
				return false
			}
			for _, srv := range at {
				srv.Pause()
			}
			until := s.a.lost()
			require.Empty(t, s.b.Lines, "by whom was it granted?")
			for _, srv := range at {
				srv.Resume()
			}
			next := s.b.held()
			require.Greater(t, next, s.token)
			require.Greater(t, at.since(t, kind, name, lease, next, s.b.owner), until, "two had it at the same time")
			return true
		})
	})
}

// TestPausedControl: two that hold different locks at the same time are seen as what they would be under one name.
func TestPausedControl(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"rlock", "redlock"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			at := newPlace(t, kind)
			longer(t, func(name string, lease time.Duration) bool {
				a := proxy(t, at, programs.present, kind, name, lease)
				a.held()
				other := name + ":another"
				b := start(t, programs.present, at.addr(), kind, other, (10 * patience).String(), "hold")
				token := b.held()
				since := at.since(t, kind, other, 10*patience, token, b.owner)
				if len(a.Lines) > 0 {
					return false
				}
				for _, p := range a.proxies {
					p.Silence(true)
				}
				require.Less(t, since, a.lost(), "it is not seen, so TestPaused shows nothing")
				return true
			})
		})
	}
}

// TestOrder: a queue of both versions is served in order. Those behind a dead first one have their turn at the unlock of the
// other version: their leases are longer than the test, so a dead one's grant would not come back.
func TestOrder(t *testing.T) {
	t.Parallel()
	for how, die := range map[string]func(p *process){
		"nobody dies": nil,
		"killed":      (*process).Kill,
		"halted": func(p *process) { // its connections stay: the server does not know
			require.NoError(p, p.Cmd.Process.Signal(redistest.Halt))
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			eachWay(t, []string{"fairlock"}, func(t *testing.T, at place, _, one, other string) {
				t.Parallel()
				line := lineUp(t, at, t.Name(), one, other, one, other, other, one)
				turns := line[1:]
				if die != nil {
					die(line[1].process)
					turns = line[2:]
				}
				line[0].unlocks()
				token := line[0].token
				for i, p := range turns {
					next := p.held()
					require.Greater(t, next, token)
					token = next
					for _, behind := range turns[i+1:] {
						require.Empty(t, behind.Lines, "overtaken")
					}
					p.unlocks()
				}
			})
		})
	}
}

// TestOrderControl: who dies when it has the lock, and not when it waits, keeps those behind waiting.
func TestOrderControl(t *testing.T) {
	t.Parallel()
	eachWay(t, []string{"fairlock"}, func(t *testing.T, at place, _, one, other string) {
		t.Parallel()
		line := lineUp(t, at, t.Name(), one, other, one)
		line[0].unlocks()
		line[1].held()
		rdb := at.first(t)
		require.Eventually(t, func() bool { // it has its lease, and not just the time in which to take what it is handed
			return rdb.PTTL(t.Context(), t.Name()).Val() > patience
		}, patience, 5*time.Millisecond)
		line[1].Kill()
		passes(t, rdb, 4*time.Second) // longer than the dead of TestOrder are waited for
		require.Empty(t, line[2].Lines, "a death is not felt, so TestOrder shows nothing")
	})
}

// queued is one of a queue. The first one has the lock.
type queued struct {
	*process
	token uint64
}

// lineUp starts processes so that they queue in this order, with leases that are longer than any test.
func lineUp(t *testing.T, at place, name string, all ...string) (line []queued) {
	client := kindtest.NewClient(t, at.first(t), nil)
	queue := fairlock.New(client, name)
	for i, program := range all {
		p := queued{process: start(t, program, at.addr(), "fairlock", name, (10 * patience).String(), "hold")}
		if i == 0 {
			p.token = p.held()
		}
		line = append(line, p)
		require.Eventually(t, func() bool {
			s, err := queue.State(t.Context())
			return err == nil && s.Waiters == i
		}, patience, 5*time.Millisecond, "%s has no place", strconv.Itoa(i))
	}
	return line
}
