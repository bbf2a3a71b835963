package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestSentinelWithRouting: go-redis makes a ClusterClient for servers that are no cluster. It wakes
// the waiters of clients without routing, and is woken by them; also after a failover.
func TestSentinelWithRouting(t *testing.T) {
	level.ForAll(t)
	s := redistest.StartSentinel(t)
	options := func(change func(*redis.UniversalOptions)) *redis.UniversalOptions {
		o := &redis.UniversalOptions{Addrs: s.Addrs(), MasterName: redistest.SentinelMaster, DialerRetries: 1}
		change(o)
		return o
	}
	shapes := map[string]redis.UniversalClient{"plain": s.Client(t)}
	for name, change := range map[string]func(*redis.UniversalOptions){
		"randomly":   func(o *redis.UniversalOptions) { o.RouteRandomly = true },
		"by latency": func(o *redis.UniversalOptions) { o.RouteByLatency = true },
	} {
		routed := redis.NewFailoverClusterClient(options(change).Failover())
		defer routed.Close()
		shapes[name] = routed
	}
	holders, waiters := make(map[string]*holdfast.Client), make(map[string]*holdfast.Client)
	for name, rdb := range shapes {
		holders[name], waiters[name] = newClient(t, rdb, &holdfast.Options{Lease: time.Hour}), newClient(t, rdb, nil)
	}
	inTurn := func() {
		for from, holder := range holders {
			for to, waiter := range waiters {
				require.True(t, handsOver(t, s.Primary(t), holder, waiter, patience), "from %s to %s", from, to)
			}
		}
	}
	inTurn()
	if s.Nodes[0].Major() >= 7 {
		misled := redis.NewFailoverClusterClient(options(func(*redis.UniversalOptions) {}).Failover())
		defer misled.Close()
		misled.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error { // as in a cluster
			for i, arg := range cmds[0].Args() {
				if arg == "PUBLISH" {
					cmds[0].Args()[i] = "SPUBLISH"
				}
			}
			return send()
		}))
		control := newClient(t, misled, &holdfast.Options{Lease: time.Hour})
		require.False(t, handsOver(t, s.Primary(t), control, waiters["plain"], time.Second),
			"control: published where nobody listens")
	}
	s.AwaitReplica(t.Context(), t)
	s.Failover(t)
	// Until a client has found the new primary it may be granted locks by the old one, which go
	// with its data when that becomes a replica.
	primary := s.Primary(t).Client(t)
	for _, clients := range []map[string]*holdfast.Client{holders, waiters} {
		for name, c := range clients {
			eventually(t, name+" has found the new primary", func() bool { return grantedAt(t, primary, c) })
		}
	}
	inTurn()
}

// grantedAt reports whether a client's locks are granted by this server.
func grantedAt(t *testing.T, server *redis.Client, c *holdfast.Client) bool {
	t.Helper()
	name := uniqueName(t)
	h, err := rlock.New(c, name).Lock(t.Context())
	if err != nil {
		return false
	}
	there := server.Exists(t.Context(), name).Val() == 1
	return h.Unlock(t.Context()) == nil && there
}

// handsOver reports whether a waiter gets the lock within a time after it was released. The waiter
// has been refused twice by then: when it came, and when it listened.
func handsOver(t *testing.T, primary *redistest.Server, holder, waiter *holdfast.Client, within time.Duration) bool {
	t.Helper()
	name := uniqueName(t)
	h := lock(t, rlock.New(holder, name))
	attempts := func() int64 { return primary.CommandCalls(t)["evalsha"] }
	before := attempts()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	granted := make(chan *holdfast.Hold, 1)
	go func() {
		defer close(granted)
		if h, err := rlock.New(waiter, name).Lock(ctx); err == nil {
			granted <- h
		}
	}()
	eventually(t, "it waits", func() bool { return attempts() >= before+2 })
	unlock(t, h)
	select {
	case h := <-granted:
		unlock(t, h)
		return true
	case <-time.After(within):
		leave()
		<-granted
		return false
	}
}
