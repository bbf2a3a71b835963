package watchdog

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
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

func (s *fakeServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

func (s *fakeServer) call(i int) call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[i]
}

func (s *fakeServer) peak() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

func (s *fakeServer) underWay() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}

func (s *fakeServer) say(answer func(ctx context.Context, batch []Renewal)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func confirm(_ context.Context, batch []Renewal) {
	for i := range batch {
		batch[i].Verdict = Renewed
	}
}

func gone(_ context.Context, batch []Renewal) {
	for i := range batch {
		batch[i].Verdict = Gone
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
