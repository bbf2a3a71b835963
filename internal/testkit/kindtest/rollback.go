package kindtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// forgotten is how many have left whose places come back, and claim what each of them would cost.
const (
	forgotten = 8
	claim     = 2 * time.Second
)

// rolledBack: a failover to a replica that was behind brings back the places of those who have left meanwhile. Each is
// handed the lock in its turn. Whoever waits has it in half the time that this would take if each kept it for a claim.
func rolledBack(s *subject) error {
	c, rdb := s.client(), s.kind.direct[0]
	holder := s.lock(s.Context(), s.locker())
	ctx, leave := context.WithCancelCause(s.Context())
	var left []*Pending
	for i := range forgotten {
		left = append(left, s.waiting(ctx, c.New(s.name)))
		s.eventually("each has a place", func() bool { return s.kind.Places(s.T, s.name) == i+1 })
	}
	before := s.copied(rdb)
	why := errors.New("who leaves")
	leave(why)
	for _, p := range left {
		require.ErrorIs(s, p.Err(), why)
	}
	s.eventually("no place is left", func() bool { return s.kind.Places(s.T, s.name) == 0 })
	patient := s.waiting(s.Context(), c.New(s.name))
	for key, was := range before {
		require.NoError(s, rdb.RestoreReplace(s.Context(), key, was.ttl, was.dump).Err())
	}
	limit := time.After(forgotten * claim / 2)
	s.unlock(holder)
	select {
	case <-patient.done:
		s.unlock(patient.Hold())
		return nil
	case <-limit:
		return fmt.Errorf("%d have places who have left", s.kind.Places(s.T, s.name))
	}
}

// copied are the keys of a lock at a server, as a replica has them.
func (s *subject) copied(rdb *redis.Client) map[string]copied {
	s.Helper()
	keys, err := rdb.Keys(s.Context(), "*"+s.name+"*").Result()
	require.NoError(s, err)
	all := map[string]copied{}
	for _, key := range keys {
		dump, err := rdb.Dump(s.Context(), key).Result()
		require.NoError(s, err)
		all[key] = copied{dump, max(rdb.PTTL(s.Context(), key).Val(), 0)}
	}
	return all
}

type copied struct {
	dump string
	ttl  time.Duration
}
