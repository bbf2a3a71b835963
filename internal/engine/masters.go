package engine

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/watchdog"
)

// What is sent for many names at once goes to each master of a cluster by itself: a pipeline over several ends with the slowest of
// them, so one master that hangs would hold up what the others have answered long ago.

// masterOf is the master that has a name, as far as go-redis knows; nil if there is only one, or if it does not know. It asks no
// server, so it may be called with a mutex held. After a failover or when a slot has moved it may be wrong for a moment; a
// pipeline of the ClusterClient finds its way all the same, and is then one that waits for two.
func (c *Client) masterOf(name string) *redis.Client {
	if c.cluster == nil || control.Lanes.Off() {
		return nil
	}
	master, err := c.cluster.MasterForKey(ended, name)
	if err != nil {
		return nil
	}
	return master
}

// ended is a context that has ended. With it go-redis answers from memory or not at all.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// byMaster groups what concerns names by the masters that have those. Within a group the order stays.
func byMaster[T any](c *Client, all []T, name func(T) string) map[*redis.Client][]T {
	groups := make(map[*redis.Client][]T)
	for _, one := range all {
		master := c.masterOf(name(one))
		groups[master] = append(groups[master], one)
	}
	return groups
}

// nameOf is the name of the lock of an owner under watch.
func nameOf(o watchdog.Owner) string { return o.(*Tenure).base.Key.Name }

// Lane is what keeps renewals apart for the watchdog, nil where one server has all locks.
func (c *Client) Lane() func(watchdog.Owner) any {
	if c.cluster == nil {
		return nil
	}
	return func(o watchdog.Owner) any { return c.masterOf(nameOf(o)) }
}
