package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rwlock"
)

// stormPatience is how long a storm may take, on however slow a machine.
const stormPatience = 2 * time.Minute

// stormRounds is how many reads there are at least in a storm in which nothing is found.
func stormRounds() int {
	if testing.Short() {
		return 150
	}
	return 1000
}

// watch knows who is inside, by the contexts of their holds, and finds what must not be.
type watch struct {
	mu      sync.Mutex
	inside  map[*holdfast.Hold]bool // whether it writes
	written uint64                  // the greatest token of a write that somebody saw
	reads   int
	writes  int
	wrong   []string
}

func newWatch() *watch { return &watch{inside: map[*holdfast.Hold]bool{}} }

// enter notes a hold. One whose context has ended is not inside any more, although its goroutine may
// not have noticed.
func (w *watch) enter(h *holdfast.Hold, writes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for other, otherWrites := range w.inside {
		if (writes || otherWrites) && other.Owner() != h.Owner() && other.Context().Err() == nil && h.Context().Err() == nil {
			w.wrong = append(w.wrong, fmt.Sprintf("%d (writes: %t) inside with %d (writes: %t)", h.Token(), writes,
				other.Token(), otherWrites))
		}
	}
	switch {
	case writes && h.Token() <= w.written:
		w.wrong = append(w.wrong, fmt.Sprintf("write with token %d after %d", h.Token(), w.written))
	case !writes && h.Token() < w.written && h.Context().Err() == nil:
		w.wrong = append(w.wrong, fmt.Sprintf("read with token %d after the write %d", h.Token(), w.written))
	}
	w.inside[h] = writes
	if writes {
		w.written, w.writes = max(w.written, h.Token()), w.writes+1
	} else {
		w.reads++
	}
}

func (w *watch) leave(h *holdfast.Hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.inside, h)
}

func (w *watch) found() (wrong []string, reads, writes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wrong, w.reads, w.writes
}

// storm has readers and writers of several processes take a lock for as long as the condition says,
// while connections are cut and answers lost.
type storm struct {
	*testing.T
	rnd   *rand.Rand
	watch *watch
	group sync.WaitGroup
}

func newStorm(t *testing.T) *storm { return &storm{T: t, rnd: level.Rand(t), watch: newWatch()} }

func (s *storm) round(ctx context.Context, rnd *rand.Rand, m *rwlock.RWMutex, writes bool) {
	take, opts := m.RLock, []holdfast.Option{holdfast.Wait(time.Second)}
	if writes {
		take = m.Lock
	}
	try, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if rnd.IntN(8) == 0 { // somebody in a hurry
		try, cancel = context.WithTimeout(ctx, time.Duration(rnd.IntN(3000))*time.Microsecond)
		defer cancel()
	}
	h, err := take(holdfast.WithOwner(try), opts...)
	if err != nil {
		return
	}
	s.watch.enter(h, writes)
	if writes && rnd.IntN(3) == 0 { // reads what it writes, and goes on reading
		if r, err := m.RLock(h.Context()); err == nil {
			s.watch.enter(r, false)
			defer func() {
				s.watch.leave(r)
				_ = r.Unlock(ctx)
			}()
		}
	}
	select {
	case <-time.After(time.Duration(rnd.IntN(2000)) * time.Microsecond):
	case <-h.Context().Done():
	}
	s.watch.leave(h)
	if err := h.Unlock(ctx); errors.Is(err, holdfast.ErrInvalid) {
		s.Error(err)
	}
}

// blow runs the storm until each side was inside so often, or something was found.
func (s *storm) blow(srv *redistest.Server, rounds int, hooks ...redis.Hook) []string {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	var proxies []*faultproxy.Proxy
	for range 3 {
		p := faultproxy.New(s.T, srv.Addr())
		proxies = append(proxies, p)
		rdb := redistest.NewClient(s.T, p.Addr(), func(o *redis.Options) { o.ReadTimeout = 50 * time.Millisecond })
		for _, h := range hooks {
			rdb.AddHook(h)
		}
		c := newClient(s.T, rdb, &holdfast.Options{Lease: 300 * time.Millisecond, RetryBudget: 500 * time.Millisecond})
		for i := range 6 {
			rnd := rand.New(rand.NewPCG(s.rnd.Uint64(), 0))
			s.group.Go(func() {
				for ctx.Err() == nil {
					s.round(ctx, rnd, rwlock.New(c, "storm"), i < 2)
				}
			})
		}
	}
	faults := []faultproxy.Action{faultproxy.DropReply, faultproxy.DropRequest, faultproxy.Cut, faultproxy.BlackHole}
	any := func([]string) bool { return true }
	require.Eventually(s, func() bool {
		p := proxies[s.rnd.IntN(len(proxies))]
		switch s.rnd.IntN(20) {
		case 0:
			p.On(any, 1, faults[s.rnd.IntN(len(faults))])
		case 1:
			p.CutAll()
		}
		wrong, reads, writes := s.watch.found()
		return len(wrong) > 0 || reads >= rounds && writes >= rounds/4
	}, stormPatience, 2*time.Millisecond, "all have their turns, or something is found")
	cancel()
	for _, p := range proxies {
		p.Clear()
	}
	s.group.Wait()
	wrong, reads, writes := s.watch.found()
	s.Logf("proof: read-write storm: %d reads, %d writes", reads, writes)
	return wrong
}

// In a storm of readers, writers and faults a writer is alone, tokens of writes grow, and a read
// never has an older one than a write before it. Nothing is left behind.
func TestStorm(t *testing.T) {
	srv := redistest.Start(t)
	require.Empty(t, newStorm(t).blow(srv, stormRounds()))
	rdb := srv.Client(t)
	eventually(t, "all is given back, or ends", func() bool {
		return rdb.Exists(t.Context(), "storm", "holdfast_rwlock_writers:{storm}").Val() == 0
	})
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		require.NotEqual(t, time.Duration(-1), rdb.PTTL(t.Context(), key).Val(), key)
	}
}

// The controls: with a defence of a script switched off the same storm shows it.
func TestStormControl(t *testing.T) {
	for name, hook := range map[string]redis.Hook{
		"readers do not look for a writer": mutant.Hook(lua.RwRead, "if mode ~= 'read' and not held[3] then", "if false then"),
		"writers do not look for readers":  mutant.Hook(lua.RwWrite, "if rest > 0 then blocked", "if false then blocked"),
		"only one reader counts":           mutant.Hook(lua.RwReadRelease, "if mode then\n  local one", "if false then\n  local one"),
		"a write has the token of the last": mutant.Hook(lua.RwWrite, "local token, last = clock, call('GET', tokens)",
			"local last = call('GET', tokens)\nlocal token = last or clock\nlast = nil"),
	} {
		t.Run(name, func(t *testing.T) {
			require.NotEmpty(t, newStorm(t).blow(redistest.Start(t), 1<<30, hook))
		})
	}
}
