package rlock_test

import (
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestBadInput: each mistake gets an error that names it and the remedy, and no command is sent.
func TestBadInput(t *testing.T) {
	srv := redistest.Start(t)
	c := newClient(t, srv.Client(t), nil)
	ctx := t.Context()
	try := func(m *rlock.Mutex, opts ...holdfast.Option) error {
		_, err := m.Lock(ctx, opts...)
		return err
	}
	good := rlock.New(c, "good")
	unknown := newClient(t, struct{ redis.UniversalClient }{srv.Client(t)}, nil)
	var zero rlock.Mutex
	_, zeroState := zero.State(ctx)
	_, zeroForce := zero.ForceUnlock(ctx)
	_, zeroTry := (*rlock.Mutex)(nil).TryLock(ctx)
	_, nilClient := holdfast.New(nil, nil)
	_, nilPointer := holdfast.New((*redis.Client)(nil), nil)
	_, badLease := holdfast.New(srv.Client(t), &holdfast.Options{Lease: time.Microsecond})
	_, badBudget := holdfast.New(srv.Client(t), &holdfast.Options{RetryBudget: -1})
	_, badLinger := holdfast.New(srv.Client(t), &holdfast.Options{Linger: -1})
	srv.ResetStats(t)

	for what, c := range map[string]struct {
		err    error
		remedy string
	}{
		"empty name":     {try(rlock.New(c, "")), "give the lock a name"},
		"open brace":     {try(rlock.New(c, "a{b")), "close it"},
		"empty tag":      {try(rlock.New(c, "a{}b")), "fill it"},
		"closing brace":  {try(rlock.New(c, "a}b")), "remove it"},
		"short lease":    {try(good, holdfast.Lease(time.Millisecond-1)), "at least 1ms"},
		"no lease":       {try(good, holdfast.Lease(0)), "at least 1ms"},
		"negative lease": {try(good, holdfast.Lease(-time.Second)), "at least 1ms"},
		"endless lease":  {try(good, holdfast.Lease(math.MaxInt64)), "at most"},
		"lowest lease":   {try(good, holdfast.Lease(math.MinInt64)), "at least 1ms"},
		"negative wait":  {try(good, holdfast.Wait(-1)), "use 0 to try once"},
		"no replicas":    {try(good, holdfast.WithReplicas(0, time.Second)), "n = 0; use at least 1"},
		"few replicas":   {try(good, holdfast.WithReplicasOnDisk(-1, time.Second)), "WithReplicasOnDisk has n = -1"},
		"no timeout":     {try(good, holdfast.WithReplicas(1, 0)), "timeout = 0s; use a positive duration"},
		"long timeout":   {try(good, holdfast.WithReplicas(1, 29698*time.Millisecond)), "use a shorter timeout or a longer lease"},
		"short for that": {try(good, holdfast.WithReplicas(1, time.Second), holdfast.Lease(time.Second)), "is trusted for 988ms"},
		"unknown client": {try(rlock.New(unknown, "good"), holdfast.WithReplicas(1, time.Second)), "use a *redis.Client or"},
		"in New":         {try(rlock.New(c, "good", holdfast.Wait(-1))), "use 0 to try once"},
		"first of two":   {try(good, holdfast.Wait(-1), holdfast.Lease(0)), "Wait is -1ns"},
		"nil client":     {try(rlock.New(nil, "good")), "holdfast.New"},
		"nil redis":      {nilClient, "redis.NewClient"},
		"nil pointer":    {nilPointer, "redis.NewClient"},
		"Options.Lease":  {badLease, "at least 1ms"},
		"RetryBudget":    {badBudget, "positive duration"},
		"Linger":         {badLinger, "positive duration"},
		"zero Mutex":     {try(&zero), "rlock.New"},
		"zero State":     {zeroState, "rlock.New"},
		"zero Force":     {zeroForce, "rlock.New"},
		"nil Mutex":      {zeroTry, "rlock.New"},
		"nil Locker":     {holdfast.Do(ctx, nil, nil), "rlock.New"},
		"nil function":   {holdfast.Do(ctx, good, nil), "pass the function"},
	} {
		t.Run(what, func(t *testing.T) {
			require.ErrorIs(t, c.err, holdfast.ErrInvalid)
			require.ErrorContains(t, c.err, c.remedy)
		})
	}
	require.Empty(t, zero.Name())
	require.Empty(t, srv.CommandCalls(t), "nothing was sent")
}
