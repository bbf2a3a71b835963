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
	require.True(s, s.permits(j, Ask{Op: "trySetPermits", N: 2}).Yes())
	first := s.permits(j, Ask{Op: "acquire", N: 1}).Texts()
	require.Len(s, first, 1)
	sem := semaphore.New(s.ours[0], s.name, 2)
	c := later(func() (*holdfast.Hold, error) { return sem.Acquire(s.ctx, 2) })
	s.queued(sem)
	_, err := semaphore.New(s.ours[1], s.name, 2).TryLock(s.ctx)
	require.ErrorIs(s, err, holdfast.ErrNotAcquired)
	second := s.permits(late, Ask{Op: "tryAcquire", N: 1}).Texts()
	require.Len(s, second, 1)
	require.True(s, s.permits(j, Ask{Op: "release", IDs: first}).Yes())
	require.True(s, s.permits(late, Ask{Op: "release", IDs: second}).Yes())
	h := s.got(c)
	require.Equal(s, 2, h.Count())
	s.mustUnlock(h)
}

// sleptOn: both sides wait for a latch that Redisson deletes. Ours waits no longer, and Redisson's sleeps
// until it is set and counted down anew. Deleted by ours, it wakes both.
func sleptOn(s *story) {
	j, waiting, l := s.thread(0), s.thread(1), latch.New(s.ours[0], s.name)
	wait := func() (*Pending, <-chan error) {
		require.True(s, s.latch(j, "trySetCount", 1).Yes())
		return s.bothWait(waiting, l)
	}
	p, c := wait()
	require.True(s, s.latch(j, "delete", 0).Yes())
	require.NoError(s, <-c)
	require.Zero(s, s.latch(j, "count", 0).Int())
	require.False(s, p.Answered())
	require.True(s, s.latch(j, "trySetCount", 1).Yes())
	require.NoError(s, s.latch(j, "countDown", 0).Err())
	require.True(s, p.Reply(s.T).Yes())

	p, c = wait()
	there, err := l.Delete(s.ctx)
	require.NoError(s, err)
	require.True(s, there)
	require.NoError(s, <-c)
	require.True(s, p.Reply(s.T).Yes())
}
