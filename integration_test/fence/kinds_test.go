package fence_test

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
)

// kinds: the guard takes the token of whatever kind of hold the context belongs to. A reader who comes
// after a write is refused.
func (s *store) kinds() {
	s.Helper()
	c, err := holdfast.New(redistest.Shared(s.T).Client(s.T), nil)
	require.NoError(s, err)
	redistest.CloseAtEnd(s.T, c)
	check := func(ctx context.Context) error {
		tx := s.begin(0)
		defer func() { _ = tx.Rollback() }() // after Commit it does nothing
		if err := s.guard.Check(context.WithoutCancel(ctx), tx, "a"); err != nil {
			return err
		}
		return tx.Commit()
	}
	rw := rwlock.New(c, s.Name()+":rw")
	reader, err := rw.RLock(s.Context())
	require.NoError(s, err)
	require.NoError(s, check(reader.Context()))
	require.NoError(s, reader.Unlock(s.Context()))
	var last uint64
	require.NoError(s, holdfast.Do(s.Context(), rw, func(ctx context.Context) error {
		last, _ = fence.Token(ctx)
		return check(ctx)
	}))
	requireStale(s.T, check(reader.Context()), "a", reader.Token(), last)

	leader := election.New(c, s.Name()+":leader") // of its own, and later than the write
	require.NoError(s, leader.Run(s.Context(), "here", check))
	require.ErrorIs(s, holdfast.Do(s.Context(), multilock.New(rw, rlock.New(c, s.Name()+":more")), check), fence.ErrSeveralLocks)
}
