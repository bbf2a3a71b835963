package redisson

import (
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/semaphore"
)

// passedBy: one of ours waits for two permits, of which one is free. One of Redisson's that comes later
// takes it, and none of ours does.
func passedBy(s *story) {
	j, late := s.thread(0), s.thread(1)
	ask := func(t *Thread, a Ask) Reply {
		a.Kind, a.Name = "permits", s.name
		return t.Do(s.T, a)
	}
	require.True(s, ask(j, Ask{Op: "trySetPermits", N: 2}).Yes())
	first := ask(j, Ask{Op: "acquire", N: 1}).Texts()
	require.Len(s, first, 1)
	sem := semaphore.New(s.ours[0], s.name, 2)
	c := make(chan granted, 1)
	go func() {
		h, err := sem.Acquire(s.ctx, 2)
		c <- granted{h, err}
	}()
	s.until("ours waits", func() bool { state, err := sem.State(s.ctx); return err == nil && state.Waiters == 1 })
	_, err := semaphore.New(s.ours[1], s.name, 2).TryLock(s.ctx)
	require.ErrorIs(s, err, holdfast.ErrNotAcquired)
	second := ask(late, Ask{Op: "tryAcquire", N: 1}).Texts()
	require.Len(s, second, 1)
	require.True(s, ask(j, Ask{Op: "release", IDs: first}).Yes())
	require.True(s, ask(late, Ask{Op: "release", IDs: second}).Yes())
	h := s.got(c)
	require.Equal(s, 2, h.Count())
	s.mustUnlock(h)
}

// sleptOn: both sides wait for a latch that Redisson deletes. Ours waits no longer, and Redisson's sleeps
// until it is set and counted down anew. Deleted by ours, it wakes both.
func sleptOn(s *story) {
	j, waiting, l := s.thread(0), s.thread(1), latch.New(s.ours[0], s.name)
	ask := func(op string, n int) Reply { return j.Do(s.T, Ask{Op: op, Kind: "latch", Name: s.name, N: n}) }
	channel := "redisson_countdownlatch__channel__{" + s.name + "}"
	wait := func() (*Pending, chan error) {
		s.until("nobody listens any more", func() bool { return s.listeners(s.ctx, channel) == 0 })
		require.True(s, ask("trySetCount", 1).Yes())
		p := waiting.Start(Ask{Op: "await", Kind: "latch", Name: s.name, Wait: millis(Patience)})
		s.until("Redisson's waits", func() bool { return s.listeners(s.ctx, channel) == 1 })
		c := make(chan error, 1)
		go func() { c <- l.Wait(s.ctx) }()
		s.until("ours waits", func() bool { return s.listeners(s.ctx, channel) == 2 })
		return p, c
	}
	p, c := wait()
	require.True(s, ask("delete", 0).Yes())
	require.NoError(s, <-c)
	require.Zero(s, ask("count", 0).Int())
	require.False(s, p.Answered())
	require.True(s, ask("trySetCount", 1).Yes())
	require.NoError(s, ask("countDown", 0).Err())
	require.True(s, p.Reply(s.T).Yes())

	p, c = wait()
	there, err := l.Delete(s.ctx)
	require.NoError(s, err)
	require.True(s, there)
	require.NoError(s, <-c)
	require.True(s, p.Reply(s.T).Yes())
}
