package rlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const patience = kindtest.Patience

var (
	lock, take, unlock = kindtest.Lock, kindtest.Take, kindtest.Unlock
	begin, refused     = kindtest.Begin, kindtest.Refused
	awaitEnd, script   = kindtest.Ended, kindtest.Script
	tells, not         = kindtest.Tells, kindtest.Not

	eventually = kindtest.Eventually
	newClient  = kindtest.NewClient
	uniqueName = kindtest.UniqueName
	shared     = kindtest.Shared
	chain      = kindtest.Chain
)

// count is an owner's hold count in Redis, 0 if it holds nothing.
func count(t testing.TB, rdb redis.UniversalClient, name, owner string) int {
	n, err := rdb.HGet(context.Background(), name, owner).Int()
	if errors.Is(err, redis.Nil) {
		return 0
	}
	require.NoError(t, err)
	return n
}

// free reports whether nobody holds the name in Redis.
func free(t testing.TB, rdb redis.UniversalClient, name string) bool {
	n, err := rdb.Exists(context.Background(), name).Result()
	require.NoError(t, err)
	return n == 0
}

// queued is how many goroutines wait in the local queues of all clients.
func queued() int { return kindtest.Goroutines("queue.(*Ticket).Wait(") }

func kind(t *testing.T) kindtest.Kind {
	return kindtest.Kind{Name: "rlock", Lease: 2 * time.Second}.On(t, kindtest.Single(t,
		func(c *holdfast.Client, name string, opts ...holdfast.Option) kindtest.Mutex {
			return rlock.New(c, name, opts...)
		}))
}

// TestKind: what every kind of lock promises.
func TestKind(t *testing.T) { kindtest.Run(t, kind(t)) }

// TestKindControls: each fault of the suite does harm without the defence. One kind shows it for all, which share the defences.
func TestKindControls(t *testing.T) {
	stay := []*defence.Switch{&defence.Stay}
	for name, c := range map[string]struct {
		without []*defence.Switch
		harm    error
	}{
		"each operation meets each fault, and happens once":           {[]*defence.Switch{&defence.Resend}, holdfast.ErrUncertain},
		"who leaves before the grant leaves nothing":                  {without: []*defence.Switch{&defence.Undo}},
		"who leaves a silent connection is not waited for":            {[]*defence.Switch{&defence.SilentWay}, holdfast.ErrNotAcquired},
		"a holder who hears nothing is told before another is inside": {without: []*defence.Switch{&defence.Deadline}},
		"an outage is no contention":                                  {[]*defence.Switch{&defence.Outage}, holdfast.ErrNotAcquired},
		"sixty-four who leave at once are told of no outage":          {without: []*defence.Switch{&defence.Noted}},
		"a waiter that cannot listen is granted the free lock":        {[]*defence.Switch{&defence.CannotListen}, holdfast.ErrNotAcquired},
		"a late acquisition is given back":                            {without: []*defence.Switch{&defence.Undo}},
		"what was to stay is given back after an outage":              {without: []*defence.Switch{&defence.Undo}},
		"a lease is trusted from when it was asked for":               {without: []*defence.Switch{&defence.SendTime}},
		"a deadline holds while the servers say nothing":              {without: []*defence.Switch{&defence.Haste}},
		"Unlock does not hide a loss behind a lost answer":            {without: []*defence.Switch{&defence.Taken}},
		"a grant that comes too late is asked for again":              {[]*defence.Switch{&defence.SlowGrant}, holdfast.ErrUnavailable},
		"who leaves while go-redis dials again is told why":           {without: []*defence.Switch{&defence.Redial}},
		"who leaves while no connection opens is told of an outage":   {[]*defence.Switch{&defence.Unopened}, holdfast.ErrNotAcquired},
		"HoldAtLeast holds, unlocked":                                 {without: stay},
		"HoldAtLeast holds, closed":                                   {without: stay},
		"HoldAtLeast holds, unlocked without an answer":               {without: stay},
		"HoldAtLeast holds, lost":                                     {without: stay},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range c.without {
				t.Cleanup(s.Without(t))
			}
			harm := kindtest.Harm(t, kind(t), name)
			if c.harm != nil {
				require.ErrorIs(t, harm, c.harm)
			}
		})
	}
	t.Run("a release that finds nothing", func(t *testing.T) {
		t.Cleanup(defence.RepeatedGone.Without(t))
		harm := kindtest.Harm(t, kind(t), "each operation meets each fault, and happens once")
		require.ErrorIs(t, harm, holdfast.ErrLost)
	})
	t.Run("the owner who has left it", func(t *testing.T) {
		kindtest.Harm(t, kind(t), "a late extension does not lengthen what was left", mutant.Hook(lua.Leave, "':h0%1'", "':h%1'"))
	})
}
