package redisson

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

// The fleet of TestShares: clients of each side, and threads or goroutines of each client.
const (
	rivals  = 4
	crew    = 4
	clients = 2 * rivals
)

// TestShares: four clients of each side, with four threads or goroutines each, compete for one name, and
// nobody has less than a third of a fair share. What counts are grants in the order of their tokens, from
// when each of Redisson's clients has had one: neither how fast the machine is nor how long Java takes to
// start.
//
// Of a fair lock they have equal shares, so one window of grants is enough. Of a plain one whoever asks
// faster has more, and which side that is the machine decides. The least of our clients, in a process with
// the race detector, had 0.52 to 0.85 of a fair share in windows of 1200 on a busy machine; but more grants
// do not help where a whole process is kept from running. So there is to be one window among six in which
// nobody has less than a third. And in all of them together none of Redisson's has less, which is what
// ours have the defence Guests for.
//
// Shares are chance, so this is for soak. What decides them is shown without chance by TestGuestTurn of the
// engine (a turn is one grant or two, by the token), TestHandOffBesideRedisson of rlock (the server is asked
// after each turn) and TestTurns of the simulation (so the other side has its turns).
func TestShares(t *testing.T) {
	level.ForSoak(t)
	topology.EachLocal(t, topology.Single, func(t *testing.T, top topology.Topology) {
		f := newContest(t, top)
		for _, r := range []race{{kinds[1], 3, 1200, 6, true}, {kinds[2], 3, 240, 1, true}} { // one after the other, or they would be rivals, too
			t.Run(r.theirs, func(t *testing.T) {
				seen := f.compete(t, r, "shares:"+r.theirs)
				last := seen[len(seen)-1]
				t.Logf("proof: redisson: %s: of %d grants of a fleet of %d and %d clients the least one had %d %% of a fair share: %v; "+
					"windows before that in which one had less than 1/%d: %d", r.theirs, r.window, rivals, rivals, last.percent(), last, r.part, len(seen)-1)
				require.True(t, last.fair(r.part), "of %d grants each, Redisson's first: %v", r.window, seen)
				require.GreaterOrEqual(t, 3*clients*slices.Min(redissons(seen)), len(seen)*r.window, "Redisson's: %v", seen)
			})
		}
	})
}

// TestSharesControl: without the defence Redisson's clients get next to nothing of a plain lock that ours
// hold for no time, which is where a turn has most grants; with it a fair share, nearly. A fair lock
// has no need of it: its queue decides. This is for soak, as TestShares is.
func TestSharesControl(t *testing.T) {
	level.ForSoak(t)
	topology.EachLocal(t, topology.Single, func(t *testing.T, top topology.Topology) {
		f := newContest(t, top)
		r := race{kinds[1], 3, 1200, 2, false}
		with := f.compete(t, r, "shares with")
		require.GreaterOrEqual(t, 3*clients*slices.Min(redissons(with)), len(with)*r.window, "with it: %v", with)
		defer defence.Guests.Without(t)()
		without := f.compete(t, r, "shares without")
		require.False(t, without[len(without)-1].fair(r.part), "%v", without)
		require.Less(t, 3*clients*slices.Min(redissons(without)), len(without)*r.window, "without it: %v", without)
		t.Logf("proof: redisson: without such turns the shares are %v", without)
	})
}

// race is what they compete for, and for how long: until there is a window of so many grants in which
// nobody has less than that part of a fair share, and for so many windows at the most. Redisson's make a
// round trip under the lock, to say that they have it. So do ours if they work.
type race struct {
	kind
	part         int // one in so many
	window, most int
	work         bool
}

// redissons are the grants of each of Redisson's clients in all windows.
func redissons(seen []shares) shares {
	total := make(shares, rivals)
	for _, s := range seen {
		for i := range total {
			total[i] += s[i]
		}
	}
	return total
}

// shares are how many grants of a window each client had, Redisson's first.
type shares []int

func (s shares) sum() (n int) {
	for _, one := range s {
		n += one
	}
	return n
}

// percent is the least share, in per cent of a fair one.
func (s shares) percent() int { return 100 * clients * slices.Min(s) / s.sum() }

func (s shares) fair(part int) bool { return part*clients*slices.Min(s) >= s.sum() }

// contest are the clients that compete.
type contest struct {
	rdb  redis.UniversalClient
	java []*Client
	ours []*holdfast.Client
}

func newContest(t *testing.T, top topology.Topology) *contest {
	t.Helper()
	f := newFleet(t, top)
	c := &contest{rdb: f.rdb, java: f.java[:], ours: f.ours[:]}
	for len(c.java) < rivals {
		c.java = append(c.java, f.java[0].w.Connect(t, top, Settings{Watchdog: millis(long)}))
		c.ours = append(c.ours, f.client(t, long, holdfast.Options{}))
	}
	return c
}

// inside is what Redisson's threads say under the lock: which client it is, and the token. They are told
// whether to go on.
const inside = "redis.call('RPUSH', KEYS[1], ARGV[1] .. ' ' .. ARGV[2]) return 1 - redis.call('EXISTS', KEYS[2])"

// compete has all of them compete, and returns the windows.
func (c *contest) compete(t *testing.T, r race, name string) (seen []shares) {
	t.Helper()
	grants, stop := "{"+name+"}:grants", "{"+name+"}:stop"
	ctx, cancel := context.WithTimeout(t.Context(), 6*Patience)
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	defer func() { require.NoError(t, c.rdb.Set(context.WithoutCancel(ctx), stop, 1, 0).Err()) }()
	compete := func(run func() error) {
		group.Go(func() {
			if err := run(); err != nil {
				t.Error(err)
			}
		})
	}
	for i, j := range c.java {
		ask := Ask{Op: "compete", Kind: r.theirs, Name: name, Names: []string{inside, grants, stop, strconv.Itoa(i)}}
		for range crew {
			thread := j.Thread(t)
			compete(func() error {
				_, err := thread.Call(ctx, ask)
				return err
			})
		}
	}
	work := func() error { return nil }
	if r.work {
		work = func() error { return c.rdb.Exists(ctx, stop).Err() }
	}
	ours := new(ledger)
	defer ours.over.Store(true)
	for i, one := range c.ours {
		m, number := r.make(one, name), rivals+i
		for range crew {
			compete(func() error { return ours.compete(ctx, m, number, work) })
		}
	}
	for last := -1; ; { // the patience is for each grant of Redisson's
		var theirs []entry
		until(ctx, t, "Redisson is granted it", func() bool {
			list, err := c.rdb.LRange(ctx, grants, 0, -1).Result()
			require.NoError(t, err)
			theirs = entries(list)
			return len(list) > last
		})
		last = len(theirs)
		if seen = windows(theirs, ours, r); len(seen) == r.most || len(seen) > 0 && seen[len(seen)-1].fair(r.part) {
			return seen
		}
	}
}

// entry is a grant.
type entry struct {
	token  uint64
	client int
}

// entries are those of Redisson's.
func entries(list []string) (all []entry) {
	for _, text := range list {
		client, token, _ := strings.Cut(text, " ")
		var e entry
		e.client, _ = strconv.Atoi(client)
		e.token, _ = strconv.ParseUint(token, 10, 64)
		all = append(all, e)
	}
	return all
}

// ledger has the grants of ours.
type ledger struct {
	over atomic.Bool
	mu   sync.Mutex // guards the next
	all  []entry
}

// compete locks and unlocks until it is over.
func (l *ledger) compete(ctx context.Context, m holdfast.Locker, client int, work func() error) error {
	for !l.over.Load() {
		h, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		l.mu.Lock()
		l.all = append(l.all, entry{h.Token(), client})
		l.mu.Unlock()
		if err := errors.Join(work(), h.Unlock(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// after are those with greater tokens.
func (l *ledger) after(token uint64) (all []entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		if e.token > token {
			all = append(all, e)
		}
	}
	return all
}

// windows counts the grants of each client, in the order of their tokens, in the whole windows from when
// each of Redisson's has had one, until one is fair.
func windows(theirs []entry, ours *ledger, r race) (seen []shares) {
	first := uint64(0)
	for i := range rivals {
		at := slices.IndexFunc(theirs, func(e entry) bool { return e.client == i })
		if at < 0 {
			return nil
		}
		first = max(first, theirs[at].token)
	}
	all := ours.after(first)
	for _, e := range theirs {
		if e.token > first {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.token, b.token) })
	for one := range slices.Chunk(all, r.window) {
		if len(one) < r.window || len(seen) > 0 && seen[len(seen)-1].fair(r.part) || len(seen) == r.most {
			break
		}
		s := make(shares, clients)
		for _, e := range one {
			s[e.client]++
		}
		seen = append(seen, s)
	}
	return seen
}
