package inspect

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/master"
)

// IsReplica asks a server for its role. Clients listen at the master, so a replica counts no listeners:
// that nobody listens there says nothing of who is alive. The clients for a Cluster and for Sentinel
// ask masters. A server that does not tell is taken for a master.
func IsReplica(ctx context.Context, rdb redis.UniversalClient) bool {
	one, ok := rdb.(*redis.Client)
	if !ok {
		return false
	}
	return master.IsReplica(one.Do(ctx, "hello").Val())
}

// AtReplica returns what a replica knows of a lock: not who listens, and so not that a queue is dead.
// It shares nothing that it changes.
func (l Lock) AtReplica() Lock {
	l.Listening, l.Queue = -1, slices.Clone(l.Queue)
	for n := range l.Queue {
		l.Queue[n].Listening = -1
	}
	l.Problems = slices.DeleteFunc(slices.Clone(l.Problems), func(p Problem) bool { return p.Trouble == DeadQueue })
	for n := range l.Problems {
		if l.Problems[n].Trouble == NoEnd {
			l.Problems[n].Text += " at the master"
		}
	}
	return l
}
