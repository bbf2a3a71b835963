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
	var group sync.WaitGroup // of these alone
	write := func(owner string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, owner)
	}
	for i, side := range text {
		before := s.queue()
		i += first
		place := make(chan string, 1)
		run := s.visit(i%2, func() { write(<-place) }) // not the hold's owner, which in a run is the first one's
		if side == 'J' {
			run = s.javaVisit(s.thread(i%2), write)
		}
		group.Go(run)
		s.group.Go(group.Wait)
		owner := ""
		s.until("it has a place", func() bool { // others may leave theirs meanwhile
			now := s.queue()
			if len(now) > 0 && !slices.Contains(before, now[len(now)-1]) {
				owner = now[len(now)-1]
			}
			return owner != ""
		})
		if side == 'J' { // it asks again when it listens, and hears of a hand-over only then
			s.until("it listens", func() bool {
				return s.listeners(s.ctx, s.channels()+":"+owner) > 0 || !slices.Contains(s.queue(), owner)
			})
		}
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

// visit returns a function in which one of ours gets the lock, and gives it back at once.
func (s *story) visit(client int, granted func()) func() {
	m := s.mutex(client)
	return func() {
		h, err := m.Lock(s.ctx)
		if err == nil {
			granted()
			err = h.Unlock(s.ctx)
		}
		if err != nil && s.ctx.Err() == nil {
			s.Error(err)
		}
	}
}

// javaVisit is visit for a thread of Redisson's.
func (s *story) javaVisit(j *Thread, granted func(owner string)) func() {
	return func() {
		err := s.call(j, "lock")
		if err == nil {
			granted(j.Owner)
			err = s.call(j, "unlock")
		}
		if err != nil && s.ctx.Err() == nil {
			s.Error(err)
		}
	}
}
