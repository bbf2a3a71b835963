package election_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestSentinel: candidates and observers go on after a failover.
func TestSentinel(t *testing.T) {
	level.ForAll(t)
	s := redistest.StartSentinel(t)
	opts := &holdfast.Options{Lease: 3 * time.Second}
	var all [2]*election.Election
	for i := range all {
		all[i] = election.New(newClient(t, s.Client(t), opts), "e")
	}
	w, stop := watch(t, all[0])
	defer stop()
	succeeds(t, all, w)
	s.AwaitReplica(t.Context(), t)
	s.Failover(t)
	primary := s.Primary(t).Client(t)
	// Until a client has found the new primary it may be granted locks by the old one, which go
	// with its data when that becomes a replica.
	for _, e := range all {
		eventually(t, "it has found the new primary", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			h, err := e.Campaign(ctx, "looks")
			if err != nil {
				return false
			}
			there := primary.Exists(t.Context(), said("e")).Val() == 1
			return h.Unlock(t.Context()) == nil && there
		})
	}
	succeeds(t, all, w)
}

// succeeds has one lead, and resign for the other one, and the observer be told of both.
func succeeds(t *testing.T, all [2]*election.Election, w *watched) {
	t.Helper()
	first := lead(t, all[0], "first")
	w.until("first")
	won := make(chan *holdfast.Hold, 1)
	go func() {
		defer close(won)
		if h, err := all[1].Campaign(t.Context(), "second"); err == nil {
			won <- h
		}
	}()
	unlock(t, first)
	second := <-won
	require.NotNil(t, second)
	require.Equal(t, second.Token(), w.until("second").Token)
	unlock(t, second)
	require.Equal(t, election.Leader{}, w.until(""))
}
