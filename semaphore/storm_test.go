package semaphore_test

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
	"github.com/holdfast-go/holdfast/semaphore"
)

// stormPatience is how long a storm may take, on however slow a machine.
const stormPermits, stormPatience = 4, 2 * time.Minute

// stormRounds is for how many holds a storm goes on where nothing is found.
func stormRounds() int {
	if testing.Short() {
		return 150
	}
	return 1000
}

// watch knows who is inside, by the contexts of their holds, and finds what must not be.
type watch struct {
	mu     sync.Mutex
	inside map[*holdfast.Hold]bool
	tokens map[uint64]bool
	holds  int
	big    int // of them of all permits
	wrong  []string
}

// enter notes a hold. One whose context has ended is not inside any more, although its goroutine may
// not have noticed.
func (w *watch) enter(h *holdfast.Hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inside[h] = true
	w.holds++
	if h.Count() == stormPermits {
		w.big++
	}
	out := 0
	for h := range w.inside {
		if h.Context().Err() == nil {
			out += h.Count()
		}
	}
	if out > stormPermits {
		w.wrong = append(w.wrong, fmt.Sprintf("%d permits are out", out))
	}
	if w.tokens[h.Token()] {
		w.wrong = append(w.wrong, fmt.Sprintf("token %d twice", h.Token()))
	}
	w.tokens[h.Token()] = true
}

func (w *watch) leave(h *holdfast.Hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.inside, h)
}

// count notes how many permits the server says there are.
func (w *watch) count(permits int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if permits != stormPermits {
		w.wrong = append(w.wrong, fmt.Sprintf("the server knows of %d permits", permits))
	}
}

func (w *watch) found() (wrong []string, holds, big int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wrong, w.holds, w.big
}

// storm has goroutines of several processes take permits while connections are cut and answers lost.
type storm struct {
	*testing.T
	rnd   *rand.Rand
	watch *watch
	group sync.WaitGroup
}

func (s *storm) round(ctx context.Context, rnd *rand.Rand, m *semaphore.Semaphore) {
	wait := time.Second
	if rnd.IntN(8) == 0 { // somebody in a hurry
		wait = time.Duration(rnd.IntN(3000)) * time.Microsecond
	}
	try, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	h, err := m.Acquire(try, 1+rnd.IntN(stormPermits))
	if err != nil {
		return
	}
	s.watch.enter(h)
	select {
	case <-time.After(time.Duration(rnd.IntN(2000)) * time.Microsecond):
	case <-h.Context().Done():
	}
	s.watch.leave(h)
	if err := h.Unlock(ctx); errors.Is(err, holdfast.ErrInvalid) {
		s.Error(err)
	}
}

// blow runs the storm until there were so many holds, a tenth of them of all permits, or something was found.
func (s *storm) blow(srv *redistest.Server, holds int, hooks ...redis.Hook) []string {
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
		for range 5 {
			rnd := rand.New(rand.NewPCG(s.rnd.Uint64(), 0))
			s.group.Go(func() {
				for ctx.Err() == nil {
					s.round(ctx, rnd, semaphore.New(c, "storm", stormPermits))
				}
			})
		}
	}
	seen := semaphore.New(newClient(s.T, srv.Client(s.T), nil), "storm", stormPermits)
	faults := []faultproxy.Action{faultproxy.DropReply, faultproxy.DropRequest, faultproxy.Cut, faultproxy.BlackHole}
	require.Eventually(s, func() bool {
		p := proxies[s.rnd.IntN(len(proxies))]
		switch s.rnd.IntN(20) {
		case 0:
			p.On(faultproxy.Any, 1, faults[s.rnd.IntN(len(faults))])
		case 1:
			p.CutAll()
		}
		if state, err := seen.State(ctx); err == nil {
			s.watch.count(state.Permits)
		}
		wrong, got, big := s.watch.found()
		return len(wrong) > 0 || got >= holds && big >= holds/10
	}, stormPatience, 2*time.Millisecond, "all have their turns, or something is found")
	cancel()
	for _, p := range proxies {
		p.Clear()
	}
	s.group.Wait()
	wrong, got, big := s.watch.found()
	s.Logf("proof: storm of permits: %d holds, %d of them of all permits", got, big)
	return wrong
}

func newStorm(t *testing.T) *storm {
	return &storm{T: t, rnd: level.Rand(t), watch: &watch{inside: map[*holdfast.Hold]bool{}, tokens: map[uint64]bool{}}}
}

// In a storm of faults no more permits are out than there are, none is lost, and those who want all
// of them get their turns. Nothing is left behind.
func TestStorm(t *testing.T) {
	srv := redistest.Start(t)
	require.Empty(t, newStorm(t).blow(srv, stormRounds()))
	rdb := srv.Client(t)
	last := semaphore.New(newClient(t, rdb, nil), "storm", stormPermits)
	h, err := last.Acquire(t.Context(), stormPermits)
	require.NoError(t, err)
	unlock(t, h)
	eventually(t, "all is given back, or ends", func() bool {
		return rdb.Exists(t.Context(), "{storm}:timeout", "holdfast_semaphore_queue:{storm}").Val() == 0
	})
	require.EqualValues(t, "4", rdb.Get(t.Context(), "storm").Val())
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		require.NotEqual(t, time.Duration(-1), rdb.PTTL(t.Context(), key).Val(), key)
	}
}

// The controls: with a defence of a script switched off the same storm shows it.
func TestStormControl(t *testing.T) {
	for name, hook := range map[string]redis.Hook{
		"it is not looked what is free": mutant.Hook(lua.SemAcquire, "if n <= free and (not first", "if (not first"),
		"a release counts always":       mutant.Hook(lua.SemRelease, "local n = take(owner)", "local n = math.max(1, take(owner))"),
		"only one of several comes back": mutant.Hook(lua.SemRelease,
			"redis.pcall('INCRBY', name, n)", "redis.pcall('INCRBY', name, 1)"),
		"a token is that of the last": mutant.Hook(lua.SemAcquire, "local last, token = call('GET', tokens), micros()",
			"local last, token = false, call('GET', tokens) or micros()"),
	} {
		t.Run(name, func(t *testing.T) {
			require.NotEmpty(t, newStorm(t).blow(redistest.Start(t), 1<<30, hook))
		})
	}
}
