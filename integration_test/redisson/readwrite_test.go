package redisson

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rwlock"
)

// side asks for one of the two sides of a read-write lock.
func (s *story) side(t *Thread, side, op string) Reply {
	s.Helper()
	return t.Do(s.T, Ask{Op: op, Kind: side, Name: s.name})
}

// holders is how many hold it.
func (s *story) holders() int {
	s.Helper()
	state, err := rwlock.New(s.ours[1], s.name).State(s.ctx)
	require.NoError(s, err)
	return len(state.Holders)
}

// readers: readers of both sides are inside together, writers of both alone; each wakes the other.
func readers(s *story) {
	j, other, m := s.thread(0), s.thread(1), rwlock.New(s.ours[0], s.name)
	require.NoError(s, s.side(j, "read", "lock").Err())
	mine := s.must(m.RLock(s.ctx))
	require.NoError(s, s.side(other, "read", "lock").Err())
	require.Equal(s, 3, s.holders())
	_, err := m.TryLock(s.ctx)
	require.ErrorIs(s, err, holdfast.ErrNotAcquired)
	require.False(s, s.side(other, "write", "tryLock").Yes())

	writer := s.wait(s.mutex(1))
	require.NoError(s, s.side(j, "read", "unlock").Err())
	s.mustUnlock(mine)
	require.Equal(s, 1, s.holders())
	require.NoError(s, s.side(other, "read", "unlock").Err())
	h := s.got(writer)
	require.False(s, s.side(j, "read", "tryLock").Yes())
	require.False(s, s.side(j, "write", "tryLock").Yes())
	_, err = m.TryRLock(s.ctx)
	require.ErrorIs(s, err, holdfast.ErrNotAcquired)

	var reads []*Pending
	before := s.settled()
	for i, t := range []*Thread{j, other} {
		reads = append(reads, t.Start(Ask{Op: "lock", Kind: "read", Name: s.name}))
		s.waits(reads[i], before+int64(i))
	}
	s.mustUnlock(h)
	for _, p := range reads {
		require.NoError(s, p.Reply(s.T).Err(), "both at once")
	}
	require.Equal(s, 2, s.holders())

	before = s.settled()
	p := s.briefJava.Thread(s.T).Start(Ask{Op: "lock", Kind: "write", Name: s.name})
	s.waits(p, before)
	mine, err = m.RLock(s.ctx)
	require.NoError(s, err, "Redisson's writers have no place that keeps readers out")
	for _, t := range []*Thread{j, other} {
		require.NoError(s, s.side(t, "read", "unlock").Err())
	}
	require.False(s, p.Answered())
	s.mustUnlock(mine)
	require.NoError(s, p.Reply(s.T).Err())
	c := later(func() (*holdfast.Hold, error) { return m.RLock(s.ctx) })
	require.NoError(s, p.thread.Do(s.T, Ask{Op: "unlock", Kind: "write", Name: s.name}).Err())
	s.mustUnlock(s.got(c))
	s.until("nothing is left", func() bool { return s.rdb.Exists(s.ctx, s.name).Val() == 0 })
}

// downgrade: a writer of either side that goes on to read lets readers of the other in.
func downgrade(s *story) {
	j, m := s.thread(0), rwlock.New(s.ours[0], s.name)
	own := holdfast.WithOwner(s.ctx)
	h := s.must(m.Lock(own))
	reads := s.must(m.RLock(own))
	p := s.javaWaits(j, "lock") // to write
	reader := s.thread(1)
	require.False(s, s.side(reader, "read", "tryLock").Yes())
	s.mustUnlock(h)
	require.NoError(s, s.side(reader, "read", "lock").Err())
	require.Equal(s, 2, s.holders())
	require.False(s, p.Answered())
	s.mustUnlock(reads)
	require.NoError(s, s.side(reader, "read", "unlock").Err())
	require.NoError(s, p.Reply(s.T).Err())

	require.NoError(s, s.side(j, "read", "lock").Err(), "it writes, so it may read")
	_, err := m.TryRLock(s.ctx)
	require.ErrorIs(s, err, holdfast.ErrNotAcquired)
	require.NoError(s, s.side(j, "write", "unlock").Err())
	reads = s.must(m.RLock(s.ctx, holdfast.Wait(5*time.Second)))
	require.Equal(s, 2, s.holders())
	require.NoError(s, s.side(j, "read", "unlock").Err())
	s.mustUnlock(reads)
	s.nothingLeft()
}
