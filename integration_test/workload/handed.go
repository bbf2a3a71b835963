package workload

import (
	"context"
	"net"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lua"
)

// Granted is a hook of go-redis that notes which tokens the server granted plain locks with. A grant with another token was none of
// the server's: the lock was handed on within the client. The zero value is ready, and may be shared by clients.
type Granted struct {
	mu     sync.Mutex // guards tokens
	tokens map[grantedToken]bool
}

type grantedToken struct{ name, token string }

var _ redis.Hook = (*Granted)(nil)

// by tells whether the server made a grant.
func (g *Granted) by(name string, token uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tokens[grantedToken{name, strconv.FormatUint(token, 10)}]
}

// DialHook is part of redis.Hook.
func (g *Granted) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook is part of redis.Hook.
func (g *Granted) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		asks := len(args) > 3 && (args[1] == any(lua.Acquire.Hash()) || args[1] == any(lua.Acquire.Text()))
		err := next(ctx, cmd)
		if asks && err == nil {
			g.note(args[3], cmd)
		}
		return err
	}
}

// ProcessPipelineHook is part of redis.Hook.
func (g *Granted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return next(ctx, cmds) }
}

// note notes the token of a reply {1, token, ...}.
func (g *Granted) note(name any, cmd redis.Cmder) {
	reply, ok := cmd.(interface{ Slice() ([]any, error) })
	if !ok {
		return
	}
	list, err := reply.Slice()
	if err != nil || len(list) < 2 || list[0] != any(int64(1)) {
		return
	}
	n, _ := name.(string)
	token, _ := list[1].(string)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tokens == nil {
		g.tokens = make(map[grantedToken]bool)
	}
	g.tokens[grantedToken{n, token}] = true
}
