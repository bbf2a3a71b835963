//go:build linux

package chaos

import (
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
)

// defects are those that storms put back where no switch does, as hooks of go-redis.
var defects = map[string][]redis.Hook{
	// A writer does not look for readers.
	"beside readers": {mutant.Hook(lua.RwWrite, "if rest > 0 then blocked", "if false then blocked")},
	// It is not looked how many permits are free, or only one of several comes back.
	"more permits":  {mutant.Hook(lua.SemAcquire, "if n <= free and (not first", "if (not first")},
	"fewer permits": {mutant.Hook(lua.SemRelease, "redis.pcall('INCRBY', name, n)", "redis.pcall('INCRBY', name, 1)")},
	// A count-down counts again when it is repeated.
	"counts twice": {mutant.Hook(lua.LatchCount, "if call('EXISTS', this) == 1 then", "if false then")},
	// Who has resigned is still named as the leader.
	"named on": {
		mutant.Hook(lua.ElectionRelease, "redis.call('DEL', KEYS[6])", ""),
		mutant.Hook(lua.ElectionLeader, "or redis.call('HEXISTS', KEYS[1], owner) == 0 then", "then"),
	},
}

// spoil puts the process's defects back into a client.
func (j *job) spoil(rdb redis.UniversalClient) {
	for _, name := range j.Without {
		for _, h := range defects[name] {
			rdb.AddHook(h)
		}
	}
}
