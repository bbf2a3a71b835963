package workload

import (
	"context"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lua"
)

// Granted is a hook of go-redis that notes which tokens the server granted plain locks with, and
// which owners asked masters for their votes. A grant with another token was none of the servers',
// nor was a second one to such an owner: the lock was handed on within the client. The zero value
// is ready, and may be shared by clients.
type Granted struct {
	dials

	mu     sync.Mutex // guards the rest
	tokens map[grantedToken]bool
	owners map[string]bool // who asked for votes: true until granted the lock
}

type grantedToken struct{ name, token string }

var _ redis.Hook = (*Granted)(nil)

// by reports whether the server, or masters, made a grant. It is asked once for each.
func (g *Granted) by(name, owner string, token uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	voted := g.owners[owner]
	if voted { // each attempt has an owner id of its own, which the masters go on knowing the lock by
		g.owners[owner] = false
	}
	return voted || g.tokens[grantedToken{name, strconv.FormatUint(token, 10)}]
}

// ProcessHook is part of redis.Hook.
func (g *Granted) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		g.noteVote(cmd)
		err := next(ctx, cmd)
		if args := cmd.Args(); runs(args, lua.Acquire) && err == nil {
			g.note(args[firstKey], cmd)
		}
		return err
	}
}

// ProcessPipelineHook is part of redis.Hook.
func (g *Granted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			g.noteVote(cmd)
		}
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if args := cmd.Args(); runs(args, lua.Acquire) && cmd.Err() == nil {
				g.note(args[firstKey], cmd)
			} else if runs(args, lua.Many) && cmd.Err() == nil {
				g.noteMany(args, cmd)
			}
		}
		return err
	}
}

// firstKey is where the keys of a script begin: behind the command, the script and the number of
// keys.
const firstKey = 3

// runs reports whether a command runs a script.
func runs(args []any, script *lua.Script) bool {
	return len(args) > firstKey && (args[1] == any(script.Hash()) || args[1] == any(script.Text()))
}

// noteVote notes the owner who asks for a vote.
func (g *Granted) noteVote(cmd redis.Cmder) {
	const keys = 2
	args := cmd.Args()
	if !runs(args, lua.Vote) || len(args) <= firstKey+keys {
		return
	}
	owner, _ := args[firstKey+keys].(string)
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.owners[owner]; known {
		return
	}
	if g.owners == nil {
		g.owners = make(map[string]bool)
	}
	g.owners[owner] = true
}

// noteMany notes the tokens of a reply {1, time, 1 or {1, token, ...}, ...} to acquisitions that
// travelled together. The names of those come first.
func (g *Granted) noteMany(args []any, cmd redis.Cmder) {
	list := values(cmd)
	keys, _ := args[firstKey-1].(int)
	if len(args) <= firstKey+keys {
		return
	}
	acquisitions, _ := args[firstKey+keys].(int)
	for i := range min(acquisitions, len(list)-2) {
		switch reply := list[2+i].(type) {
		case int64:
			g.noteGrant(args[firstKey+2*i], []any{reply, list[1]})
		case []any:
			g.noteGrant(args[firstKey+2*i], reply)
		}
	}
}

// note notes the token of a reply {1, token, ...}.
func (g *Granted) note(name any, cmd redis.Cmder) { g.noteGrant(name, values(cmd)) }

// values is what a command replied, nil if that is no list.
func values(cmd redis.Cmder) []any {
	reply, ok := cmd.(interface{ Slice() ([]any, error) })
	if !ok {
		return nil
	}
	list, _ := reply.Slice()
	return list
}

func (g *Granted) noteGrant(name any, list []any) {
	if len(list) < 2 || list[0] != any(int64(1)) {
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
