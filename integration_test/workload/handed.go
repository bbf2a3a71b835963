package workload

import (
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lua"
)

// Granted notes, by its Hook, which tokens the server granted plain locks with, and
// which owners asked masters for their votes. A grant with another token was none of the servers',
// nor was a second one to such an owner: the lock was handed on within the client. The zero value
// is ready, and may be shared by clients.
type Granted struct {
	mu     sync.Mutex // guards the rest
	tokens map[grantedToken]bool
	owners map[string]bool // who asked for votes: true until granted the lock
}

type grantedToken struct{ name, token string }

// Hook is for go-redis.
func (g *Granted) Hook() redis.Hook { return watch(g) }

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

// sends notes the owner who asks for a vote.
func (g *Granted) sends(cmd redis.Cmder) {
	if !runs(cmd.Args(), lua.Vote) || len(arguments(cmd.Args())) == 0 {
		return
	}
	owner, _ := arguments(cmd.Args())[0].(string)
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

// answered notes the tokens that the server granted.
func (g *Granted) answered(cmd redis.Cmder, err error) {
	args := cmd.Args()
	switch {
	case err != nil:
	case runs(args, lua.Acquire): // {1, token, ...}
		g.noteGrant(args[firstKey], values(cmd))
	case runs(args, lua.Many):
		g.noteMany(args, cmd)
	}
}

// noteMany notes the tokens of a reply {1, time, 1 or {1, token, ...}, ...} to acquisitions that
// travelled together. The names of those come first.
func (g *Granted) noteMany(args []any, cmd redis.Cmder) {
	list, more := values(cmd), arguments(args)
	if len(more) == 0 {
		return
	}
	acquisitions, _ := more[0].(int)
	for i := range min(acquisitions, len(list)-2) {
		switch reply := list[2+i].(type) {
		case int64:
			g.noteGrant(args[firstKey+2*i], []any{reply, list[1]})
		case []any:
			g.noteGrant(args[firstKey+2*i], reply)
		}
	}
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
