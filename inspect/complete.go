package inspect

import (
	"context"
	"errors"
	"regexp"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// keyRefused are the words of servers that refuse a key, and not a command.
var keyRefused = regexp.MustCompile(`(?i)access (a|at least one of the|one of the) keys?`)

// isReply reports whether an error is a server's word.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// mayBeLock reports whether fields are those of a lock: owners, of which a read-write lock has any
// number.
func mayBeLock(fields []string) bool {
	for _, field := range fields {
		owner := field
		if at := len(field) - len(writes); at > 0 && field[at:] == writes {
			owner = field[:at]
		}
		if field != "mode" && !remote.IsOwner(owner) {
			return false
		}
	}
	return len(fields) == 1 || slices.Contains(fields, "mode")
}

// complete adds what stands in other slots, or is known to other nodes: who listens in a cluster, and
// the labels of clients.
func (i *Inspector) complete(ctx context.Context, locks []Lock) error {
	if i.cluster != nil {
		for n := range locks {
			if err := i.listen(ctx, &locks[n]); err != nil {
				return err
			}
		}
	}
	for n := range locks {
		locks[n].deadQueue()
	}
	return i.label(ctx, locks)
}

// listen asks all nodes of a cluster for classic subscriptions, which may be at any of them. Only for
// waiters whom nobody seems to hear: these may have another kind of subscription.
func (i *Inspector) listen(ctx context.Context, l *Lock) error {
	var channels []string
	of := make(map[string][]int)
	for n, w := range l.Queue {
		if w.Listening > 0 {
			continue
		}
		channel := keys.ForReadWrite(l.Name).Channel
		if id := clientOf(w.Owner); l.Kind != ReadWrite {
			if channel = keys.For(l.Name).Channel; l.Kind == Semaphore {
				channel = keys.ForPermits(l.Name).Channel
			}
			if channel += ":" + id; w.Redisson {
				channel = keys.For(l.Name).Mailbox(w.Owner)
			}
		}
		if of[channel] == nil {
			channels = append(channels, channel)
		}
		of[channel] = append(of[channel], n)
	}
	if len(channels) == 0 {
		return nil
	}
	nodes, err := gather(ctx, i.cluster.ForEachShard)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		counts, err := node.PubSubNumSub(ctx, channels...).Result()
		if err != nil {
			if isReply(err) {
				return nil // not permitted: then it is not known
			}
			return err
		}
		for channel, count := range counts {
			for _, n := range of[channel] {
				l.Queue[n].Listening = max(l.Queue[n].Listening, 0) + int(count)
			}
		}
	}
	return nil
}

// label asks who the clients are. What a user may not see, or what there is not, is left out.
func (i *Inspector) label(ctx context.Context, locks []Lock) error {
	asked := make(map[string]*redis.StringCmd)
	pipe := i.rdb.Pipeline()
	ask := func(client string) {
		if client != "" && asked[client] == nil {
			asked[client] = pipe.Get(ctx, keys.Label(client))
		}
	}
	for _, l := range locks {
		for _, h := range l.Holders {
			ask(h.Client())
		}
		for _, w := range l.Queue {
			ask(w.Client())
		}
	}
	if len(asked) == 0 {
		return nil
	}
	_, _ = pipe.Exec(ctx) // each command keeps its own error
	said := func(client string) string {
		if cmd := asked[client]; cmd != nil && cmd.Err() == nil {
			return cmd.Val()
		}
		return ""
	}
	for _, cmd := range asked {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) && !isReply(err) {
			return err
		}
	}
	for n := range locks {
		for h := range locks[n].Holders {
			locks[n].Holders[h].Label = said(locks[n].Holders[h].Client())
		}
		for w := range locks[n].Queue {
			locks[n].Queue[w].Label = said(locks[n].Queue[w].Client())
		}
	}
	return nil
}
