package rlock_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/memory"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// TestBadInput: each mistake is named with the remedy, and nothing is sent. Mistakes of every kind of lock are in kindtest.
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
	_, nilValue := holdfast.DoValue[int](ctx, good, nil)
	var nilHold *holdfast.Hold
	var zeroHold holdfast.Hold
	srv.ResetStats(t)

	for what, c := range map[string]struct {
		err    error
		remedy string
	}{
		"no replicas":  {try(good, holdfast.Replicas(0, time.Second)), "n = 0; use at least 1"},
		"few replicas": {try(good, holdfast.ReplicasOnDisk(-1, time.Second)), "ReplicasOnDisk has n = -1"},
		"no timeout":   {try(good, holdfast.Replicas(1, 0)), "timeout = 0s; use a positive duration"},
		"long timeout": {try(good, holdfast.Replicas(1, 29698*time.Millisecond)),
			"use a shorter timeout or a longer lease"},
		"short for that": {try(good, holdfast.Replicas(1, time.Second), holdfast.Lease(time.Second)),
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
		"nil function":   {holdfast.Do(ctx, good, nil), "fn is nil; pass the function"},
		"nil of a value": {nilValue, "fn is nil; pass the function"},
	} {
		t.Run(what, func(t *testing.T) {
			tells(t, c.err, holdfast.ErrInvalid, c.remedy)
		})
	}
	require.Empty(t, zero.Name())
	require.Empty(t, nilHold.Owner()+zeroHold.Owner()+zeroClient.ID()+(*holdfast.Client)(nil).ID())
	require.Zero(t, nilHold.Count()+zeroHold.Count())
	require.Zero(t, nilHold.Token()+zeroHold.Token())
	require.True(t, nilHold.Deadline().IsZero() && zeroHold.Deadline().IsZero())
	require.Empty(t, srv.CommandCalls(t), "nothing was sent")
}

// TestUnfitOptions: an option that a kind cannot serve is refused first, and its value is not judged: no other one would help.
func TestUnfitOptions(t *testing.T) {
	c, _ := shared(t, nil)
	keep, least, no := rlock.Keep(time.Second), holdfast.HoldAtLeast(1), holdfast.Replicas(0, 0)
	masters := []*holdfast.Client{c}
	for _, row := range []struct {
		l    holdfast.Locker
		says string
	}{
		{rlock.New(c, "a", rlock.Keep(-time.Second)), "Keep is -1s; use a positive duration"},
		{rlock.New(c, "a", rlock.Keep(math.MaxInt64)), "use at most 2562047h47m16.853775807s"},
		{fairlock.New(c, "a", keep), "Keep is 1s; only an rlock can be kept, not a lock of package fairlock; leave the option out"},
		{fairlock.New(c, "a", rlock.Keep(-1)), "Keep is -1ns; only an rlock can be kept"},
		{redlock.New(masters, "a", keep), "Keep is 1s; only an rlock can be kept"},
		{redlock.New(masters, "a", no), "Replicas is for a lock that one server grants, not a lock of package redlock; leave the option out"},
		{rlock.New(c, "a", least), "HoldAtLeast is 1ns; use at least 1ms"},
		{semaphore.New(c, "a", 1, least), "HoldAtLeast is 1ns; permits come back when they are unlocked; leave the option out"},
		{semaphore.New(c, "a", 1, holdfast.HoldAtLeast(0)), "HoldAtLeast is 0s; permits come back"},
		{rwlock.New(c, "a", least).RLocker(), "HoldAtLeast is 1ns; readers keep nobody out for longer than they read; give it to Lock only"},
		{rwlock.New(c, "a", least), "HoldAtLeast is 1ns; use at least 1ms"},
		{rlock.New(c, "a", redlock.MasterTimeout(0)), "MasterTimeout is for package redlock, which asks several masters, not for rlock; leave the option out"},
		{fairlock.New(c, "a", redlock.TrustRestarts()), "TrustRestarts is for package redlock, which asks several masters, not for fairlock; leave"},
	} {
		tells(t, kindtest.Err(row.l.Lock(t.Context())), holdfast.ErrInvalid, row.says)
	}
}

// TestShortestLease: the shortest lease that is accepted can be granted by a quick server. (Of 1 or 2 ms nothing is trusted.)
func TestShortestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := memory.NewClient(nil)
		require.NoError(t, err)
		h := lock(t, memory.New(c, &memory.Server{}, "a"), holdfast.Lease(4*time.Millisecond))
		require.True(t, h.Deadline().After(time.Now()))
		unlock(t, h)
		require.NoError(t, c.Close(t.Context()))
	})
}

// FuzzLease: what is not refused is used as it was given, rounded up to whole milliseconds: as the time to live on a real
// server, and, a little less, as the time for which the hold is trusted. The token's key lives for twice that.
func FuzzLease(f *testing.F) {
	const shortest, longest = time.Minute, math.MaxInt64 - time.Millisecond // shorter ones would end during the test
	for _, d := range []time.Duration{
		shortest, shortest + 1, time.Hour, 1 << 53, 1<<53*time.Microsecond - 1, math.MaxInt64 / 2, math.MaxInt64/2 - 42,
		longest,
	} {
		f.Add(int64(d), int64(time.Minute), "a")
		f.Add(int64(time.Minute), int64(d), "{a}b")
	}
	f.Fuzz(func(t *testing.T, of, extended int64, name string) {
		lease, longer := time.Duration(of), time.Duration(extended)
		if lease < shortest || lease > longest || longer < shortest || longer > longest {
			return
		}
		rdb := redistest.Shared(t).Client(t)
		m := rlock.New(newClient(t, rdb, nil), "{"+uniqueName(t)+"}"+name)
		hold, err := m.TryLock(t.Context(), holdfast.Lease(lease))
		if err != nil {
			t.Fatalf("lease %v, name %q: %v", lease, name, err)
		}
		lasts(t, rdb, m, hold, lease)
		if err := hold.Extend(t.Context(), longer); err != nil {
			t.Fatalf("extend %v to %v: %v", lease, longer, err)
		}
		lasts(t, rdb, m, hold, max(lease, longer))
		if err := hold.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// lasts checks for how long a hold that has just been confirmed lasts on the server and in the process, and its token's key.
func lasts(t *testing.T, rdb *redis.Client, m *rlock.Mutex, hold *holdfast.Hold, lease time.Duration) {
	t.Helper()
	const slow = 40 * time.Second // for whatever the machine does in between
	state, err := m.State(t.Context())
	if err != nil || state.Owner != hold.Owner() || state.Token != hold.Token() {
		t.Fatalf("%+v, %v; the hold is %s with token %d", state, err, hold.Owner(), hold.Token())
	}
	if state.Remaining > lease+time.Millisecond || state.Remaining < lease-slow {
		t.Fatalf("a lease of %v has %v left", lease, state.Remaining)
	}
	trust := time.Until(hold.Deadline())
	if most := lease - lease/100; trust > most || trust < most-slow {
		t.Fatalf("a lease of %v is trusted for %v", lease, trust)
	}
	token := rdb.PTTL(t.Context(), "redisson_lock_token:"+m.Name()).Val()
	if lease >= math.MaxInt64/2-time.Millisecond { // the server is told whole milliseconds
		return // twice that is no duration
	}
	if most := max(time.Hour, 2*lease) + 2*time.Millisecond; token > most || token < most-slow {
		t.Fatalf("beside a lease of %v the token's key has %v left", lease, token)
	}
}
