package kindtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

// bursts are hazards that count what servers and this process do.
var bursts = []hazard{
	{"callers who leave cost no more than those who are served", boundsHold(1, 64), false, true},
	{"callers of eight clients who leave cost no more either", boundsHold(8, 8), false, true},
	{"so it is at servers that are slow", slowServers(16, 10*slowness, false), false, true},
	{"callers who all wait for a few round trips are granted the lock", slowServers(64, 3*slowness, true), false, true},
	{"so it is where servers have no room for another connection", noRoom, false, true},
	{"callers of clients that are new leave nothing", newClients, false, true},
}

// burst is many more callers than a lock can serve: most leave within some ms, by a wait or a context that ends at any time.
type burst struct {
	*subject
	clients []Client
	callers int           // of all clients
	longest atomic.Int64  // wait
	most    int64         // that this may become
	some    int64         // how many grants are a round
	limit   time.Duration // within which what must come again comes
	idle    int           // goroutines before it began
	spare   int           // goroutines that are the test's own
	turns   bool          // who waits without a limit is granted the lock meanwhile
	alike   bool          // all wait for the longest time
	full    bool          // servers have no room for connections, so the test asks nothing meanwhile
	trouble func()        // begins with the burst
	relief  []func()      // ends that

	calls, grants, outages atomic.Int64
	places, routines       atomic.Int64 // the most that were seen
	over                   atomic.Bool
	wrong                  atomic.Pointer[error] // what went wrong first
	group                  sync.WaitGroup
}

// unheard are the options of clients that the test does not observe: what an observer is not quick enough for is dropped.
var unheard = &holdfast.Options{Linger: time.Millisecond, Observer: &event.Observer{}}

const (
	// slowness is how long a slow server takes for an answer.
	slowness = 20 * time.Millisecond
	// proxied is how many goroutines there may be in proxies to a server.
	proxied = 200
	// shortest is how long callers wait at most, as long as some of them are granted the lock.
	shortest = 4 * time.Millisecond
	// longer is how many times as long they wait at most where nobody is answered within less, on a busy machine.
	longer = 32
	// rounds are how often some of a burst are granted the lock, and one of another client who waits for it.
	rounds, some = 3, 8
	// often is at which of their calls callers look what there is.
	often = 32
)

// boundsHold: callers who leave cost no more than those served, in places at the servers, goroutines, commands for each call,
// and work after the last has gone. Grants go on, and a waiter of another client has its turn.
func boundsHold(clients, each int) func(*subject) error {
	return func(s *subject) error {
		if clients > 1 {
			level.ForAll(s.T)
		}
		b := s.burst(clients*each, shortest)
		b.turns = s.kind.Queues || clients == 1 // else whoever asks first after a release
		for range clients {
			b.clients = append(b.clients, s.kind.Client(s.T, unheard))
		}
		return b.run(s.client(), s.client())
	}
}

// slowServers: answers are slow, and a wait is several. If all wait equally long, the first has mostly less than one left.
func slowServers(callers int, longest time.Duration, alike bool) func(*subject) error {
	return func(s *subject) error {
		level.ForAll(s.T)
		b := s.burst(callers, longest)
		if b.alike = alike; alike {
			b.most = int64(longest)
		}
		c, n := s.patient(unheard)
		other, m := s.patient(unheard)
		b.clients, b.spare, b.turns = []Client{c}, proxied*len(s.kind.direct), true
		b.trouble = func() { append(n, m...).each(func(p *faultproxy.Proxy) { p.DelayReply(scripts, 0, slowness) }) }
		return b.run(other, s.client())
	}
}

// newClients: of the callers of clients new to the lock nothing is left. (After less than the lease, which ends any leftover.)
func newClients(s *subject) error {
	level.ForAll(s.T)
	for range 4 {
		b := s.burst(64, shortest)
		for range 8 {
			b.clients = append(b.clients, s.kind.Client(s.T, unheard))
		}
		b.idle = runtime.NumGoroutine()
		b.begin()
		b.eventually("they come again and again", func() bool { return b.wrong.Load() != nil || b.calls.Load() > 8*64 })
		b.end()
		if wrong := b.wrong.Load(); wrong != nil {
			return *wrong
		}
		for end := time.Now().Add(patience); s.taken(s.name) > 0 || s.kind.Places(s.T, s.name) > 0; <-time.After(time.Millisecond) {
			if time.Now().After(end) {
				return fmt.Errorf("it is taken at %d servers, and %d have places", s.taken(s.name), s.kind.Places(s.T, s.name))
			}
		}
	}
	return nil
}

// noRoom: the same where the servers have no room for one more connection than there were before.
func noRoom(s *subject) error {
	level.ForAll(s.T)
	b := s.burst(16, shortest)
	b.clients, b.full, b.some = []Client{s.kind.Client(s.T, unheard)}, true, 1
	set := func(rdb *redis.Client, n string) {
		require.NoError(s, rdb.ConfigSet(s.Context(), "maxclients", n).Err())
	}
	b.trouble = func() {
		for _, rdb := range s.kind.direct {
			most := rdb.ConfigGet(s.Context(), "maxclients").Val()["maxclients"]
			set(rdb, rdb.InfoMap(s.Context(), "clients").Item("Clients", "connected_clients"))
			b.relief = append(b.relief, func() { set(rdb, most) })
		}
	}
	return b.run(s.client(), s.client())
}

func (s *subject) burst(callers int, longest time.Duration) *burst {
	b := &burst{subject: s, callers: callers, limit: 3 * patience, some: some, most: longer * int64(longest)}
	if s.control {
		b.limit = 3 * time.Second
	}
	b.longest.Store(int64(longest))
	return b
}

// run has the burst, and two clients beside it that wait as long as it takes: one from before it, one anew in each round.
func (b *burst) run(before, other Client) error {
	for _, c := range append(b.clients, before, other) {
		b.unlock(b.lock(b.Context(), c.New(b.name)))
	}
	b.idle = runtime.NumGoroutine()
	sent := b.kind.Sent(b.T)
	h := b.lock(b.Context(), other.New(b.name))
	passed := int64(0)
	waits := Begin(b.Context(), b, func(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
		h, err := before.New(b.name).Lock(ctx, opts...)
		if err == nil {
			passed, err = b.grants.Load(), b.bears(h.Unlock(ctx))
		}
		return h, err
	})
	b.eventually("it waits", func() bool { return b.kind.Waiters(b.T, b.name) > 0 })
	defer b.end()
	if b.trouble != nil {
		b.trouble()
	}
	b.begin()
	b.eventually("they come again and again", func() bool {
		return b.wrong.Load() != nil || !b.control && b.calls.Load() > 8*int64(b.callers)
	})
	b.unlock(h)
	if wrong := b.wrong.Load(); wrong != nil {
		return *wrong
	}
	if b.turns && waits.Hold() != nil && b.kind.Queues && passed > 0 {
		return fmt.Errorf("%d were granted the lock before one who had come before them", passed)
	}
	calm := 0
	for range rounds {
		told, calls := b.outages.Load(), b.calls.Load()
		if err := b.round(other.New(b.name)); err != nil {
			return err
		}
		if outages := b.outages.Load() - told; 8*outages <= b.calls.Load()-calls {
			calm++
		}
	}
	b.end()
	calls, last := b.calls.Load(), b.kind.Sent(b.T)
	waits.Hold()
	b.unlock(b.lock(b.Context(), other.New(b.name)))
	b.eventually("nothing is left", func() bool { // which a goroutine more asks
		return b.taken(b.name) == 0 && b.kind.Places(b.T, b.name) == 0 && runtime.NumGoroutine() <= b.idle+b.spare+1
	})
	rest := b.kind.Sent(b.T) - last
	b.Logf("%d callers, %d calls, waits of up to %v: %d granted, %d told of an outage; at most %d places, "+
		"%d goroutines; %d scripts, %d after the last call", b.callers, calls, time.Duration(b.longest.Load()),
		b.grants.Load(), b.outages.Load(), b.places.Load(), b.routines.Load(), last-sent, rest)
	switch wrong, servers := b.wrong.Load(), int64(len(b.kind.direct)); {
	case wrong != nil:
		return *wrong
	case calm == 0 && !b.full:
		return fmt.Errorf("%d of %d calls were told of an outage", b.outages.Load(), calls)
	case last-sent > 4*calls*servers:
		return fmt.Errorf("%d scripts for %d calls", last-sent, calls)
	case rest > (8*int64(b.callers)+b.outages.Load())*servers: // what got no answer is undone, once at least
		return fmt.Errorf("%d scripts were left of %d callers", rest, b.callers)
	}
	return nil
}

// round ends when some callers had the lock, and then one that waits for it. If a busy machine grants none, they wait longer.
func (b *burst) round(l holdfast.Locker) error {
	grants, calls := b.grants.Load(), b.calls.Load()
	for end := time.Now().Add(b.limit); b.grants.Load()-grants < b.some; <-time.After(time.Millisecond) {
		if wrong := b.wrong.Load(); wrong != nil {
			return *wrong
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d grants in %d calls", b.grants.Load()-grants, b.calls.Load()-calls)
		}
		if now := b.calls.Load(); now-calls > 8*int64(b.callers) {
			calls = now
			b.longest.Store(min(2*b.longest.Load(), b.most))
		}
	}
	if !b.turns {
		return nil
	}
	h, err := l.Lock(b.Context(), holdfast.Wait(b.limit))
	if err != nil {
		return fmt.Errorf("who waits beside them: %w", err)
	}
	return b.bears(h.Unlock(b.Context()))
}

// bears is an error unless a busy machine explains it: a stop of more than a claim, or an unlock that a full server missed.
func (b *burst) bears(err error) error {
	if errors.Is(err, holdfast.ErrLost) || b.full && errors.Is(err, holdfast.ErrUnavailable) {
		return nil
	}
	return err
}

func (b *burst) begin() {
	rng := level.Rand(b.T)
	for i := range b.callers {
		l, own := b.clients[i%len(b.clients)].New(b.name), rand.New(rand.NewPCG(rng.Uint64(), 0)) //nolint:gosec // for tests
		b.group.Go(func() {
			for !b.over.Load() && b.wrong.Load() == nil {
				b.failed(b.call(l, own))
				if b.calls.Add(1)%often == 0 && !b.full {
					b.failed(b.look())
				}
			}
		})
	}
}

func (b *burst) failed(err error) {
	if err != nil {
		b.wrong.CompareAndSwap(nil, &err)
	}
}

func (b *burst) end() {
	b.over.Store(true)
	b.group.Wait()
	for _, end := range b.relief {
		end()
	}
	b.relief = nil
}

// call is one call. Who is granted the lock has it until a server has answered something else.
func (b *burst) call(l holdfast.Locker, rng *rand.Rand) error {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	opt, stop := b.waits(rng, cancel)
	defer stop()
	h, err := l.Lock(ctx, opt)
	switch {
	case err == nil:
		b.grants.Add(1)
		if !b.full {
			_ = b.kind.direct[0].Ping(b.Context())
		}
		return b.bears(h.Unlock(b.Context()))
	case errors.Is(err, holdfast.ErrUnavailable), b.full && errors.Is(err, context.Canceled): // it had no answer either
		b.outages.Add(1)
	case !errors.Is(err, holdfast.ErrNotAcquired) && b.bears(err) != nil && (ctx.Err() == nil ||
		!errors.Is(err, context.Canceled)):
		return fmt.Errorf("told %w", err)
	}
	return nil
}

// waits is how long a caller waits, and by what it ends: by its option, or by its context, which may have ended before.
func (b *burst) waits(rng *rand.Rand, cancel func()) (opt holdfast.Option, stop func()) {
	stop = func() {}
	if b.alike {
		return holdfast.Wait(time.Duration(b.longest.Load())), stop
	}
	wait := time.Duration(rng.Int64N(b.longest.Load()))
	switch rng.IntN(8) {
	case 0:
		wait = 0
	case 1:
		cancel()
	case 2, 3:
		timer := time.AfterFunc(wait, cancel)
		wait, stop = patience, func() { timer.Stop() }
	}
	return holdfast.Wait(wait), stop
}

// look checks the bounds. They may be exceeded for a moment, by requests of a time when the machine stood still.
func (b *burst) look() error {
	for end := time.Now().Add(b.limit); ; <-time.After(time.Millisecond) {
		places, routines := int64(b.kind.Places(b.T, b.name)), int64(runtime.NumGoroutine()-b.idle)
		for most, n := range map[*atomic.Int64]int64{&b.places: places, &b.routines: routines} {
			if n > most.Load() {
				most.Store(n)
			}
		}
		if places <= int64(2*b.callers) && routines <= int64(4*b.callers+b.spare) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d places and %d goroutines of %d callers", places, routines, b.callers)
		}
	}
}

// tenThousand is too much to be done beside anything else.
const tenThousand = "ten thousand who leave at once are told of no outage"

func impatience(s *subject) {
	level.ForAll(s.T)
	require.NoError(s, impatient(10_000)(s))
}

// impatient: callers of one client who leave at once, while another client has the lock, are told that the lock is not theirs,
// and in an outage of that. Few and many know by different ways: each asks, or one asks for all.
func impatient(callers int) func(*subject) error {
	return func(s *subject) error {
		c, _ := s.patient(nil)
		s.known(c)
		l := c.New(s.name)
		h := s.lock(s.Context(), s.locker())
		wrong := 0
		// A server that a busy machine stops for longer than the callers are late is silent, so one round that goes well is
		// enough. Without the defence one that does not is: where the callers begin one after the other, each asks for itself.
		for end := time.Now().Add(patience); ; {
			var err error
			if wrong, err = leave(s, l, callers); (wrong == 0) != s.control || time.Now().After(end) {
				require.NoError(s, err)
				break
			}
		}
		require.NoError(s, h.Unlock(s.Context()))
		if wrong > 0 {
			return fmt.Errorf("%d of %d were told of an outage", wrong, callers)
		}
		return nil
	}
}

// leave has callers want another's lock for a moment. It counts outages told; err is anything else but who has the lock.
func leave(s *subject, l holdfast.Locker, callers int) (wrong int, err error) {
	var g sync.WaitGroup
	var outages atomic.Int64
	var other atomic.Pointer[error]
	for i := range callers {
		g.Go(func() {
			switch _, err := l.Lock(s.Context(), holdfast.Wait(time.Duration(1+i%8)*time.Millisecond)); {
			case errors.Is(err, holdfast.ErrUnavailable):
				outages.Add(1)
			case !errors.Is(err, holdfast.ErrNotAcquired):
				err = fmt.Errorf("told %w", err)
				other.Store(&err)
			}
		})
	}
	g.Wait()
	if other := other.Load(); other != nil {
		err = *other
	}
	return int(outages.Load()), err
}
