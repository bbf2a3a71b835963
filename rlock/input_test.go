package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestBadInput: each mistake gets an error that names it and the remedy, and no command is sent.
// Those that can be made with every kind of lock are in package kindtest.
func TestBadInput(t *testing.T) {
	srv := redistest.Start(t)
	c := newClient(t, srv.Client(t), nil)
	ctx := t.Context()
	try := func(m *rlock.Mutex, opts ...holdfast.Option) error {
		_, err := m.Lock(ctx, opts...)
		return err
	}
	good := rlock.New(c, "good")
	var zero rlock.Mutex
	_, zeroState := zero.State(ctx)
	_, zeroForce := zero.ForceUnlock(ctx)
	_, zeroTry := (*rlock.Mutex)(nil).TryLock(ctx)
	_, nilClient := holdfast.New(nil, nil)
	_, nilPointer := holdfast.New((*redis.Client)(nil), nil)
	_, nilCluster := holdfast.New((*redis.ClusterClient)(nil), nil)
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	_, aRing := holdfast.New(ring, nil)
	_, inRing := holdfast.New(struct{ *redis.Ring }{ring}, nil)
	_, unknown := holdfast.New(struct{ redis.UniversalClient }{srv.Client(t)}, nil)
	_, badLease := holdfast.New(srv.Client(t), &holdfast.Options{Lease: time.Microsecond})
	_, badBudget := holdfast.New(srv.Client(t), &holdfast.Options{RetryBudget: -1})
	_, badLinger := holdfast.New(srv.Client(t), &holdfast.Options{Linger: -1})
	_, badPrefix := holdfast.New(srv.Client(t), &holdfast.Options{Prefix: "team}:"})
	_, openPrefix := holdfast.New(srv.Client(t), &holdfast.Options{Prefix: "{team:"})
	var zeroClient holdfast.Client
	_, nilState := good.State(nil)       //nolint:staticcheck // that is the point
	_, nilForce := good.ForceUnlock(nil) //nolint:staticcheck // likewise
	var nilHold *holdfast.Hold
	var zeroHold holdfast.Hold
	srv.ResetStats(t)

	for what, c := range map[string]struct {
		err    error
		remedy string
	}{
		"no replicas":  {try(good, holdfast.WithReplicas(0, time.Second)), "n = 0; use at least 1"},
		"few replicas": {try(good, holdfast.WithReplicasOnDisk(-1, time.Second)), "WithReplicasOnDisk has n = -1"},
		"no timeout":   {try(good, holdfast.WithReplicas(1, 0)), "timeout = 0s; use a positive duration"},
		"long timeout": {try(good, holdfast.WithReplicas(1, 29698*time.Millisecond)),
			"use a shorter timeout or a longer lease"},
		"short for that": {try(good, holdfast.WithReplicas(1, time.Second), holdfast.Lease(time.Second)),
			"is trusted for 988ms"},
		"nil client":     {try(rlock.New(nil, "good")), "holdfast.New"},
		"nil redis":      {nilClient, "redis.NewClient"},
		"nil pointer":    {nilPointer, "redis.NewClient"},
		"nil cluster":    {nilCluster, "redis.NewClient"},
		"ring":           {aRing, "use a single server"},
		"ring within":    {inRing, "pass the *redis.Client or"},
		"unknown client": {unknown, "use AddHook"},
		"Options.Lease":  {badLease, "at least 4ms"},
		"RetryBudget":    {badBudget, "positive duration"},
		"Linger":         {badLinger, "positive duration"},
		"Prefix":         {badPrefix, `Options.Prefix "team}:" has a closing brace without an opening one`},
		"open Prefix":    {openPrefix, "close it or remove the brace"},
		"zero Mutex":     {try(&zero), "rlock.New"},
		"zero State":     {zeroState, "rlock.New"},
		"zero Force":     {zeroForce, "rlock.New"},
		"nil Mutex":      {zeroTry, "nil or zero Mutex; make one with rlock.New"},
		"zero client":    {try(rlock.New(&zeroClient, "good")), "client is a zero Client; make one with holdfast.New"},
		"close a zero":   {zeroClient.Close(ctx), "make one with holdfast.New"},
		"close nil":      {(*holdfast.Client)(nil).Close(ctx), "client is nil"},
		"nil in State":   {nilState, "ctx is nil; use context.Background()"},
		"nil in Force":   {nilForce, "ctx is nil; use context.Background()"},
		"nil in New":     {try(rlock.New(c, "good", nil)), "option 1 is nil; leave it out"},
		"nil hold":       {nilHold.Unlock(ctx), "hold is nil; use the one that Lock returned"},
		"extend nil":     {nilHold.Extend(ctx, time.Second), "hold is nil"},
		"zero hold":      {zeroHold.Unlock(ctx), "zero Hold; use the one that Lock returned"},
		"extend zero":    {zeroHold.Extend(ctx, time.Second), "zero Hold"},
		"nil's context":  {context.Cause(nilHold.Context()), "hold is nil"},
		"zero's context": {context.Cause(zeroHold.Context()), "zero Hold"},
		"nil Locker":     {holdfast.Do(ctx, nil, nil), "rlock.New"},
	} {
		t.Run(what, func(t *testing.T) {
			require.ErrorIs(t, c.err, holdfast.ErrInvalid)
			require.ErrorContains(t, c.err, c.remedy)
		})
	}
	require.Empty(t, zero.Name())
	require.Empty(t, nilHold.Owner()+zeroHold.Owner()+zeroClient.ID()+(*holdfast.Client)(nil).ID())
	require.Zero(t, nilHold.Count()+zeroHold.Count())
	require.Zero(t, nilHold.Token()+zeroHold.Token())
	require.True(t, nilHold.Deadline().IsZero() && zeroHold.Deadline().IsZero())
	require.Empty(t, srv.CommandCalls(t), "nothing was sent")
}

// TestShortestLease: the shortest lease that is accepted can be granted. (Those of 1 and 2 ms never
// could: nothing of them is trusted.)
func TestShortestLease(t *testing.T) {
	c, _ := shared(t, nil)
	m := rlock.New(c, uniqueName(t), holdfast.Lease(4*time.Millisecond))
	eventually(t, "granted", func() bool {
		h, err := m.TryLock(t.Context())
		if err == nil {
			_ = h.Unlock(t.Context())
		}
		return err == nil
	})
}
