package watchdog

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

// fakeServer answers renewals in virtual time. answer is called for each batch; nil confirms all.
type fakeServer struct {
	answer func(ctx context.Context, batch []Renewal)

	mu    sync.Mutex
	calls []call
	busy  int
	most  int // batches that were under way at once
}

type call struct {
	at    time.Time
	count int
}

func (s *fakeServer) renew(ctx context.Context, batch []Renewal) {
	s.mu.Lock()
	if len(s.calls) == 100_000 {
		panic("renewed for ever: no time goes by in the bubble")
	}
	s.calls = append(s.calls, call{time.Now(), len(batch)})
	s.busy++
	s.most = max(s.most, s.busy)
	answer := s.answer
	s.mu.Unlock()
	if answer == nil {
		answer = confirm
	}
	answer(ctx, batch)
	s.mu.Lock()
	s.busy--
	s.mu.Unlock()
}

// seen is something that a fake server has seen, read under its mutex.
func seen[T any](s *fakeServer, read func() T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return read()
}

func (s *fakeServer) count() int      { return seen(s, func() int { return len(s.calls) }) }
func (s *fakeServer) call(i int) call { return seen(s, func() call { return s.calls[i] }) }
func (s *fakeServer) peak() int       { return seen(s, func() int { return s.most }) }
func (s *fakeServer) underWay() int   { return seen(s, func() int { return s.busy }) }

func (s *fakeServer) say(answer func(ctx context.Context, batch []Renewal)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func confirm(_ context.Context, batch []Renewal) { judge(batch, Renewed) }
func gone(_ context.Context, batch []Renewal)    { judge(batch, Gone) }

func judge(batch []Renewal, verdict Verdict) {
	for i := range batch {
		batch[i].Verdict = verdict
	}
}

// silent is a server that does not answer: only the end of the attempt's context ends it.
func silent(ctx context.Context, _ []Renewal) { <-ctx.Done() }

// deaf does not even listen to its context, as a client that sits in a read.
func deaf(d time.Duration) func(context.Context, []Renewal) {
	return func(context.Context, []Renewal) { time.Sleep(d) }
}

// holder is the owner of a lease. It notes when and why it was told of a loss.
type holder struct {
	lease Lease
	pause time.Duration      // how long it blocks in Lost, which it must not
	react func(reason error) // in Lost, if set

	mu   sync.Mutex
	lost []error
	at   time.Time
}

func (h *holder) Lost(reason error) {
	h.mu.Lock()
	h.lost = append(h.lost, reason)
	h.at = time.Now()
	h.mu.Unlock()
	time.Sleep(h.pause)
	if h.react != nil {
		h.react(reason)
	}
}

// heard demands why the holder was told of a loss, or that it was not, and returns when that was.
func (h *holder) heard(t *testing.T, why ...error) (at time.Time) {
	lost, at := h.told()
	require.Equal(t, why, lost)
	return at
}

// pass lets time go by, and all that happens meanwhile come to its end.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (h *holder) told() ([]error, time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost, h.at
}

const lease = 30 * time.Second

// controls are what a test changes about the watchdog.
type controls struct {
	without   *defence.Switch
	beforeRun func() // runs in the goroutine of a batch before it is sent
}

// apply lasts to the end of the test, or until it is restored.
func (c controls) apply(t *testing.T) (restore func()) {
	var restores []func()
	if c.without != nil {
		restores = append(restores, c.without.Without(t))
	}
	if c.beforeRun != nil {
		restores = append(restores, defence.AtRenewal(t, c.beforeRun))
	}
	return func() {
		for _, f := range restores {
			f()
		}
	}
}

// bubble runs f in virtual time with a watchdog on a fake server. That the bubble ends shows that no goroutine is left.
func bubble(t *testing.T, off controls, f func(t *testing.T, w *Watchdog, s *fakeServer)) {
	defer off.apply(t)()
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{}
		w := New(Config{Renew: s.renew})
		defer w.Join() // deferred, so that a check that fails is what is reported
		defer w.Stop()
		f(t, w, s)
	})
}

func watch(t *testing.T, w *Watchdog, renew bool) *holder {
	h := &holder{}
	require.True(t, w.Watch(&h.lease, h, time.Now(), lease, renew))
	return h
}

func TestRenewsEveryThird(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		start := time.Now()
		h := watch(t, w, true)
		pass(time.Hour + time.Second)
		require.Equal(t, 360, s.count())
		for i := range 360 {
			require.Equal(t, time.Duration(i+1)*lease/3, s.call(i).at.Sub(start))
		}
		require.Equal(t, s.call(359).at.Add(Trust(lease)), w.Deadline(&h.lease))
		h.heard(t)
	})
}

func TestPlainLeaseEnds(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		start := time.Now()
		h := watch(t, w, false)
		time.Sleep(time.Minute)
		at := h.heard(t, ErrEnded)
		require.Equal(t, Trust(lease), at.Sub(start))
		require.Zero(t, s.count())
		require.False(t, w.Forget(&h.lease))
	})
}

// TestLostAnswers: most answers are lost. What counts is when the confirmed attempt was sent.
func TestLostAnswers(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		const slow = 150 * time.Millisecond
		var sent atomic.Pointer[time.Time] // of the last one that was confirmed
		s.say(func(ctx context.Context, batch []Renewal) {
			if n := s.count(); n%4 == 0 {
				now := time.Now()
				time.Sleep(slow)
				confirm(ctx, batch)
				sent.Store(&now)
			}
		})
		h := watch(t, w, true)
		for range 100 {
			pass(time.Minute)
			h.heard(t)
			require.Equal(t, sent.Load().Add(Trust(lease)), w.Deadline(&h.lease),
				"counted from the sending, not from the answer")
		}
	})
}

func TestGoneIsToldAtOnce(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		s.say(gone)
		start := time.Now()
		h := watch(t, w, true)
		time.Sleep(time.Hour)
		at := h.heard(t, ErrGone)
		require.Equal(t, lease/3, at.Sub(start))
		require.Equal(t, 1, s.count())
	})
}

func TestConfirm(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		h := watch(t, w, false)
		start := time.Now()
		require.True(t, w.Confirm(&h.lease, start, time.Second, false))
		require.Equal(t, start.Add(Trust(lease)), w.Deadline(&h.lease), "never back")
		require.True(t, w.Confirm(&h.lease, start, 2*lease, true))
		require.Equal(t, start.Add(Trust(2*lease)), w.Deadline(&h.lease))
		time.Sleep(time.Hour + time.Second)
		require.Equal(t, int(time.Hour/(2*lease/3)), s.count(), "renewed at its new length")
		require.True(t, w.Confirm(&h.lease, time.Now(), lease, false))
		before := s.count()
		time.Sleep(time.Hour + time.Second)
		require.Equal(t, int(time.Hour/(lease/3)), s.count()-before, "at the shorter one; renewal is not switched off")
		w.Forget(&h.lease)
		require.False(t, w.Confirm(&h.lease, time.Now(), lease, true))
		require.False(t, w.Forget(&h.lease), "what is not watched is left alone")
	})
}

// TestConfirmOvertaken: a confirmation that was sent before the newest one does not bring the next renewal forward.
func TestConfirmOvertaken(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		start := time.Now()
		h := watch(t, w, true)
		time.Sleep(5 * time.Second)
		w.Confirm(&h.lease, start.Add(4*time.Second), lease, true)
		w.Confirm(&h.lease, start.Add(3*time.Second), lease, true)
		require.Equal(t, start.Add(4*time.Second+Trust(lease)), w.Deadline(&h.lease))
		time.Sleep(time.Minute)
		require.Equal(t, 4*time.Second+lease/3, s.call(0).at.Sub(start))
	})
}

func TestRenewNow(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		h, other, plain := watch(t, w, true), watch(t, w, true), watch(t, w, false)
		s.say(gone)
		w.RenewNow(func(o Owner) bool { return o == h || o == plain })
		synctest.Wait()
		h.heard(t, ErrGone)
		other.heard(t)
		plain.heard(t) // a plain lease is not renewed, by nothing
	})
}

// TestStop: the rest is returned and nobody is told. The batch that is under way has its context ended, with the cause.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		s := &fakeServer{answer: func(ctx context.Context, _ []Renewal) {
			<-ctx.Done()
			cause = context.Cause(ctx)
		}}
		w := New(Config{Renew: s.renew})
		h, plain := watch(t, w, true), watch(t, w, false)
		time.Sleep(lease/3 + time.Millisecond)
		before := time.Now()
		require.ElementsMatch(t, []Owner{h, plain}, w.Stop())
		w.Join()
		require.Equal(t, before, time.Now(), "at once")
		require.ErrorIs(t, cause, errStopped)
		h.heard(t)
		require.False(t, w.Watch(&h.lease, h, time.Now(), lease, true))
		require.False(t, w.Forget(&h.lease))
		require.Empty(t, w.Stop(), "twice is harmless")
		w.Join()
	})
}

func TestNeverStarted(t *testing.T) {
	w := New(Config{})
	require.Zero(t, w.Deadline(&Lease{}))
	require.False(t, w.Forget(&Lease{}))
	require.Empty(t, w.Stop())
	w.Join()
}

// TestJoinWaits: a Renew that ignores its context is joined, not left behind.
func TestJoinWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{answer: deaf(time.Minute)}
		w := New(Config{Renew: s.renew})
		watch(t, w, true)
		time.Sleep(lease/3 + time.Millisecond)
		w.Stop()
		w.Join()
		require.Zero(t, s.underWay())
	})
}

// TestWatchAnew: a lease that is watched already is not there twice.
func TestWatchAnew(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		h := watch(t, w, true)
		require.True(t, w.Watch(&h.lease, h, time.Now(), lease, false))
		time.Sleep(time.Hour)
		h.heard(t, ErrEnded)
		require.Zero(t, s.count())
	})
}

// TestNoLease: a grant that came later than it can be trusted is lost at once; the longest length does not overflow.
func TestNoLease(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		start := time.Now()
		late, long := &holder{}, &holder{}
		require.True(t, w.Watch(&long.lease, long, start, math.MaxInt64, true))
		require.True(t, w.Watch(&late.lease, late, start.Add(-lease), lease, true))
		require.False(t, w.Forget(&late.lease), "lost is lost, also before it is told")
		require.False(t, w.Confirm(&late.lease, start, lease, true))
		synctest.Wait()
		at := late.heard(t, ErrDeadline)
		require.Equal(t, start, at)
		require.Zero(t, s.count())
		require.True(t, w.Forget(&long.lease))
	})
}

// TestQuiet: a lock that is taken and released again and again pokes the goroutine once, whenever that looks.
func TestQuiet(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		h := watch(t, w, true)
		w.Forget(&h.lease)
		synctest.Wait() // it looked, and found nothing
		for range 1000 {
			w.Watch(&h.lease, h, time.Now(), lease, true)
			require.Empty(t, w.poke)
			w.Forget(&h.lease)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Hour)
		require.Zero(t, s.count())
		watch(t, w, true) // it sleeps without end now, and is woken
		time.Sleep(lease/3 + time.Millisecond)
		require.Equal(t, 1, s.count())
	})
}

// TestChurn: goroutines take and release while batches are answered, refused and forgotten about. A
// life ends once: by Forget that says so, or by Lost, never both. The race detector watches too.
func TestChurn(t *testing.T) {
	bubble(t, controls{}, func(t *testing.T, w *Watchdog, s *fakeServer) {
		var mu sync.Mutex
		rnd := level.Rand(t)
		draw := func(n int) int { // for the batches, which are answered at once
			mu.Lock()
			defer mu.Unlock()
			return rnd.IntN(n)
		}
		s.say(func(_ context.Context, batch []Renewal) {
			time.Sleep(time.Duration(draw(20)) * time.Millisecond)
			for i := range batch {
				batch[i].Verdict = []Verdict{Renewed, Renewed, Renewed, Unknown, Gone}[draw(5)]
			}
		})
		var group sync.WaitGroup
		var forgotten, lost atomic.Int64
		for range 16 {
			rnd := rand.New(rand.NewPCG(uint64(draw(1<<31)), 0))
			group.Go(func() {
				h := &holder{}
				for range 300 {
					before, _ := h.told()
					assert.True(t, w.Watch(&h.lease, h, time.Now(), 100*time.Millisecond, rnd.IntN(4) > 0))
					time.Sleep(time.Duration(rnd.IntN(80)) * time.Millisecond)
					w.Confirm(&h.lease, time.Now(), 100*time.Millisecond, rnd.IntN(2) > 0)
					time.Sleep(time.Duration(rnd.IntN(80)) * time.Millisecond)
					if rnd.IntN(20) == 0 {
						w.RenewNow(func(o Owner) bool { return o == h })
					}
					ended := w.Forget(&h.lease)
					time.Sleep(30 * time.Millisecond) // verdicts under way arrive, losses are told
					after, _ := h.told()
					if ended {
						forgotten.Add(1)
						assert.Len(t, after, len(before))
					} else {
						lost.Add(1)
						assert.Len(t, after, len(before)+1)
					}
				}
			})
		}
		group.Wait()
		require.Positive(t, forgotten.Load())
		require.Positive(t, lost.Load())
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Zero(t, w.ends.len()+w.turns.len()+len(w.lanes), "nothing is left")
	})
}
