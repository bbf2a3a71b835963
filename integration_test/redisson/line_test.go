package redisson

import (
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
)

// line puts waiters into the queue of a fair lock one after the other, as the text has it: G is
// ours, J Redisson's, of the two clients in turn. It returns the queue, and a function that waits
// for all of them and returns the order in which they were granted the lock. Each unlocks at once.
func (s *story) line(first int, text string) (want []string, granted func() []string) {
	s.Helper()
	var mu sync.Mutex
	var order []string
	var group sync.WaitGroup
	write := func(owner string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, owner)
	}
	queue := func() []string {
		return s.rdb.LRange(s.ctx, "redisson_lock_queue:"+tagged(s.name), 0, -1).Val()
	}
	for i, side := range text {
		n := len(queue())
		i += first
		place := make(chan string, 1)
		if side == 'J' {
			j := s.thread(i % 2)
			group.Go(func() {
				if err := s.ask(j, "lock").Err(); err != nil {
					s.Error(err)
					return
				}
				write(j.Owner)
				if err := s.ask(j, "unlock").Err(); err != nil {
					s.Error(err)
				}
			})
		} else {
			m := s.mutex(i % 2)
			group.Go(func() {
				h, err := m.Lock(s.ctx)
				if err != nil {
					s.Error(err)
					return
				}
				write(<-place) // and not the hold's owner, which in a run is the first one's
				if err := h.Unlock(s.ctx); err != nil {
					s.Error(err)
				}
			})
		}
		s.until("it has a place", func() bool { return len(queue()) == n+1 })
		owner := queue()[n]
		want = append(want, owner)
		place <- owner
	}
	return want, func() []string {
		s.Helper()
		done := make(chan struct{})
		go func() { group.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(Patience):
			mu.Lock()
			defer mu.Unlock()
			require.Fail(s, "not all were served", "%v of %v: %s", order, want, s.dump())
		}
		return slices.Clone(order)
	}
}
