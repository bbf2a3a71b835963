package redistest

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Gatherer stands for a client and sends the first commands together: it waits until there are so
// many. Later ones go as they come.
type Gatherer struct {
	client *redis.Client
	n      int
	send   func(cmds []redis.Cmder)

	mu   sync.Mutex
	cmds []redis.Cmder
	sent chan struct{} // closed when they are
}

// Gather sends the first n commands to a client by a function.
func Gather(client *redis.Client, n int, send func(cmds []redis.Cmder)) *Gatherer {
	return &Gatherer{client: client, n: n, send: send, sent: make(chan struct{})}
}

// Process is the part of a client that sends a command.
func (g *Gatherer) Process(ctx context.Context, cmd redis.Cmder) error {
	g.mu.Lock()
	if len(g.cmds) == g.n {
		g.mu.Unlock()
		return g.client.Process(ctx, cmd)
	}
	g.cmds = append(g.cmds, cmd)
	last := len(g.cmds) == g.n
	g.mu.Unlock()
	if last {
		g.send(g.cmds)
		close(g.sent)
	}
	<-g.sent
	return cmd.Err()
}
