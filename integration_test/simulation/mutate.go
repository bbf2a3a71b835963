package simulation

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"net"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lua"
)

// mutation is a hook of go-redis that has another script run in place of one of the library's: the
// same, on a server some of whose commands do something else. It lets the server not know the
// library's script at first, is sent the text then, and changes that. What the text says does not
// matter, so it can be edited without a look at this.
type mutation struct {
	script *lua.Script
	// of a Lua function of (cmd, key, ...); what it returns is what the command replies, nil: it is
	// as ever
	body string

	mu   sync.Mutex // guards the rest
	hash string     // of the changed script; empty before it was sent
}

var _ redis.Hook = (*mutation)(nil)

// DialHook is part of redis.Hook.
func (m *mutation) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook is part of redis.Hook.
func (m *mutation) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		m.change(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook is part of redis.Hook.
func (m *mutation) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			m.change(cmd)
		}
		return next(ctx, cmds)
	}
}

func (m *mutation) change(cmd redis.Cmder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch args := cmd.Args(); {
	case args[0] == "evalsha" && args[1] == m.script.Hash():
		args[1] = m.hash
		if m.hash == "" {
			args[1] = strings.Repeat("0", 40)
		}
	case args[0] == "eval" && hash(args[1].(string)) == m.script.Hash():
		text := m.prelude() + args[1].(string)
		args[1], m.hash = text, hash(text)
	}
}

// prelude has redis.call and redis.pcall go through the mutation. The emulated server makes a Lua
// state for each run, so nothing of it stays.
func (m *mutation) prelude() string {
	return `
local function changed(call)
  local function change(cmd, key, ...) ` + m.body + ` end
  return function(cmd, ...)
    local reply = change(cmd, ...)
    if reply ~= nil then return reply end
    return call(cmd, ...)
  end
end
redis.call, redis.pcall = changed(redis.call), changed(redis.pcall)
`
}

func hash(script string) string {
	sum := sha1.Sum([]byte(script)) //nolint:gosec // Redis names scripts by it
	return hex.EncodeToString(sum[:])
}
