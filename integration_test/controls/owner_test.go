package controls_test

import (
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
)

// Nobody touches what is another's.
var ownerDefences = []proof{
	{
		name: "a release asks whose it is", fault: "an unlock of who has lost the lock to another",
		mutant: mutant.Hook(lua.Release, "if not held then", "if redis.call('EXISTS', name) == 0 then"),
		try: func(l *lab) string {
			m, other := l.mutex(nil), l.mutex(nil)
			h := l.lock(m, l.Context())
			require.NoError(l, l.direct.Del(l.Context(), name).Err())
			next := l.lock(other, l.Context())
			_ = h.Unlock(l.Context())
			if l.holder() != next.Owner() {
				return "released another's lock"
			}
			return ""
		},
	},
	{
		name: "a re-entry asks whose it is", fault: "a re-entry of who has lost the lock to another",
		mutant: mutant.Hook(lua.Recount, "local held = call('HEXISTS', name, ARGV[1]) == 1",
			"local held = call('EXISTS', name) == 1"),
		try: func(l *lab) string {
			m, other := l.mutex(nil), l.mutex(nil)
			h := l.lock(m, l.Context())
			require.NoError(l, l.direct.Del(l.Context(), name).Err())
			next := l.lock(other, l.Context())
			if _, err := m.Lock(h.Context()); err == nil || l.holder() != next.Owner() {
				return "two owners"
			}
			return ""
		},
	},
	{
		name: "written in the order allowed", fault: "the server is out of memory, a hold is given back",
		mutant: mutant.Hook(lua.Recount, "call('PEXPIRE', name, math.max(tonumber(ARGV[3]), call('PTTL', name)))\n",
			""),
		try: func(l *lab) string {
			m := l.mutex(nil)
			h := l.lock(m, l.Context())
			inner := l.lock(m, h.Context())
			require.NoError(l, l.direct.ConfigSet(l.Context(), "maxmemory", "1").Err())
			err := inner.Unlock(l.Context())
			require.NoError(l, l.direct.ConfigSet(l.Context(), "maxmemory", "0").Err())
			if err != nil {
				return "cannot be given back: " + err.Error()
			}
			return ""
		},
	},
}
