package inspect

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/pipeline"
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
	return !slices.ContainsFunc(fields, strange) && (len(fields) == 1 || slices.Contains(fields, "mode"))
}

// strange reports whether no lock has such a field: neither that of an owner, who writes perhaps, nor
// the mode of a read-write lock.
func strange(field string) bool {
	return field != "mode" && !remote.IsOwner(strings.TrimSuffix(field, writes))
}

// complete adds what stands in other slots, or is known to other nodes: who listens in a cluster, and
// the labels of clients.
func (i *Inspector) complete(ctx context.Context, locks []Lock) error {
	if i.cluster != nil {
		if err := i.listen(ctx, locks); err != nil {
			return err
		}
	}
	for n := range locks {
		locks[n].deadQueue()
	}
	return i.label(ctx, locks)
}

// listen asks all nodes of a cluster for classic subscriptions, which may be at any of them: for
// waiters whom nobody seems to hear, and for locks where it is not known who listens.
func (i *Inspector) listen(ctx context.Context, locks []Lock) error {
	var channels []string
	counts := make(map[string][]*int)
	add := func(channel string, count *int) {
		if counts[channel] == nil {
			channels = append(channels, channel)
		}
		counts[channel] = append(counts[channel], count)
	}
	for n := range locks {
		l := &locks[n]
		if l.Listening < 0 {
			add(l.channel(), &l.Listening)
		}
		for q := range l.Queue {
			if w := &l.Queue[q]; w.Listening <= 0 {
				add(l.mailbox(w), &w.Listening)
			}
		}
	}
	if len(channels) == 0 {
		return nil
	}
	nodes, err := collectNodes(ctx, i.cluster.ForEachShard)
	if err != nil {
		return err
	}
	heard := make([]map[string]int64, len(nodes))
	all := i.askExtras(ctx, nodes, func(n int, node *redis.Client) (err error) {
		heard[n], err = node.PubSubNumSub(ctx, channels...).Result()
		return err
	})
	for _, one := range heard {
		for channel, more := range one {
			for _, count := range counts[channel] {
				*count = max(*count, 0) + int(more)
			}
		}
	}
	if all {
		return nil
	}
	for _, list := range counts { // who is not permitted, or did not answer, may have somebody who listens
		for _, count := range list {
			if *count == 0 {
				*count = -1
			}
		}
	}
	return context.Cause(ctx)
}

// channel is on which a release is announced.
func (l *Lock) channel() string {
	switch l.Kind {
	case ReadWrite:
		return keys.ForReadWrite(l.Name).Channel
	case Semaphore:
		return keys.ForPermits(l.Name).Channel
	case Latch:
		return keys.ForLatch(l.Name).Channel
	}
	return keys.For(l.Name).Channel
}

// mailbox is where a waiter is called.
func (l *Lock) mailbox(w *Waiter) string {
	switch {
	case l.Kind == ReadWrite:
		return l.channel()
	case w.Redisson:
		return l.channel() + ":" + w.Owner
	}
	return l.channel() + ":" + w.Client()
}

// label asks who the clients are. What a user may not see, what there is not, and what is at a master of
// a cluster that does not answer, is left out: the locks are the matter.
func (i *Inspector) label(ctx context.Context, locks []Lock) error {
	asked := make(map[string]*redis.StringCmd)
	ask := func(client string) {
		if client != "" && asked[client] == nil {
			asked[client] = redis.NewStringCmd(ctx, "get", keys.Label(client))
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
	i.askLabels(ctx, asked)
	said := func(client string) string {
		if cmd := asked[client]; cmd != nil && cmd.Err() == nil {
			return cmd.Val()
		}
		return ""
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
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

// askLabels sends the commands, each to its master. Each keeps its own error.
func (i *Inspector) askLabels(ctx context.Context, asked map[string]*redis.StringCmd) {
	byNode := make(map[*redis.Client][]redis.Cmder)
	var nodes []*redis.Client
	for client, cmd := range asked {
		node, ok := i.rdb.(*redis.Client)
		if !ok {
			var err error
			if node, err = i.cluster.MasterForKey(ctx, keys.Label(client)); err != nil {
				cmd.SetErr(err)
				continue
			}
		}
		if byNode[node] == nil {
			nodes = append(nodes, node)
		}
		byNode[node] = append(byNode[node], cmd)
	}
	send := func(node *redis.Client, cmds []redis.Cmder) error {
		pipe := node.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd)
		}
		pipeline.Exec(ctx, pipe)
		for _, cmd := range cmds {
			if err := cmd.Err(); err != nil && !isReply(err) {
				return err
			}
		}
		return nil
	}
	if i.cluster == nil {
		_ = send(nodes[0], byNode[nodes[0]])
		return
	}
	i.askExtras(ctx, nodes, func(n int, node *redis.Client) error { return send(node, byNode[nodes[n]]) })
}
