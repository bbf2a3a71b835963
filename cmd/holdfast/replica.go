package main

import (
	"context"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inspect"
)

// onReplica is said once by a command that looks at a replica. Clients listen at the master, so a replica
// counts no listeners: that nobody listens there says nothing of who is alive.
const onReplica = "this server is a replica: it does not know who listens"

// onNode is said by a command that lists what it finds on one node of a Cluster.
const onNode = "this server is a node of a Cluster, and has only the locks of its own slots; for all write redis+cluster:// in place of redis://"

// isNode asks a server whether it is a node of a Cluster whose other nodes are not asked. One that does not tell is none.
func isNode(ctx context.Context, rdb redis.UniversalClient) bool {
	one, ok := rdb.(*redis.Client)
	return ok && one.InfoMap(ctx, "cluster").Item("Cluster", "cluster_enabled") == "1"
}

// role is what is known of one of the servers of a command. It is asked when the server has answered, so that
// a silent one is waited for once, and only once.
type role struct {
	rdb            redis.UniversalClient
	asked, replica bool
}

// isReplica also says it, the first time. where is what the line begins with if there are several servers.
func (r *role) isReplica(ctx context.Context, stderr io.Writer, where string) bool {
	if !r.asked {
		r.asked, r.replica = true, inspect.IsReplica(ctx, r.rdb)
		if r.replica {
			warn(stderr, "%s%s", where, onReplica)
		}
	}
	return r.replica
}

// at is what a line about one of several servers begins with.
func (i inspector) at(several bool) string {
	if !several {
		return ""
	}
	return fmt.Sprintf("at %s: ", i.address)
}
