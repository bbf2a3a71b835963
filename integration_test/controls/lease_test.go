package controls_test

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// short is a lease that ends within a test.
var short = &holdfast.Options{Lease: 600 * time.Millisecond}

// Held means held, loss is told, and everything ends by itself.
var leaseDefences = []proof{
	{
		name: "trust deadline", fault: "network silent for longer than the lease", off: &defence.Deadline,
		try: func(l *lab) string {
			m := l.mutex(short)
			l.warm(m)
			h := l.lock(m, l.Context())
			l.proxy.Silence(true)
			defer l.proxy.Silence(false)
			require.True(l, l.within(patience, l.free)) // the moment from which another could have it
			if h.Context().Err() == nil {
				return "trusted after the lease was over"
			}
			return ""
		},
	},
	{
		name: "renewal ends with the hold", fault: "a lock is unlocked, another one is held on", off: &defence.Bound,
		try: func(l *lab) string {
			c := l.client(short)
			m := rlock.New(c, name)
			l.warm(m)
			other := l.lock(rlock.New(c, "other"), l.Context())
			require.NoError(l, l.lock(m, l.Context()).Unlock(l.Context()))
			before := l.renewals(name)
			want := l.renewals("other") + 3
			require.True(l, l.within(patience, func() bool { return l.renewals("other") >= want }))
			require.NoError(l, other.Unlock(l.Context()))
			if l.renewals(name) > before {
				return "renewed after it was unlocked"
			}
			return ""
		},
	},
	{
		name: "renewal asks whose it is", fault: "the key is deleted, and another owner takes the lock",
		mutant: mutant.Hook(lua.Renew, "if not held then", "if call('EXISTS', name) == 0 then"),
		try: func(l *lab) string {
			m := l.mutex(short)
			l.warm(m)
			h := l.lock(m, l.Context())
			require.NoError(l, l.direct.Del(l.Context(), name).Err())
			require.NoError(l, l.direct.HSet(l.Context(), name, "another", 1).Err())
			require.NoError(l, l.direct.PExpire(l.Context(), name, time.Minute).Err())
			before := l.renewals(name)
			lost := func() bool { return h.Context().Err() != nil }
			require.True(l, l.within(patience, func() bool { return lost() || l.renewals(name) >= before+3 }))
			if !lost() {
				return "not told that another has it"
			}
			return ""
		},
	},
	{
		name: "leases are not shortened", fault: "an old renewal arrives after an extension",
		mutant: mutant.Hook(lua.Renew, "if call('PTTL', name) < lease then", "if true then"),
		try: func(l *lab) string {
			m := l.mutex(nil)
			l.warm(m)
			h := l.lock(m, l.Context(), holdfast.Lease(time.Second))
			require.NoError(l, h.Extend(l.Context(), time.Second))
			requests := l.proxy.Requests()
			renewal := requests[len(requests)-1]
			require.NoError(l, h.Extend(l.Context(), time.Minute))
			l.send(renewal)
			if left := l.direct.PTTL(l.Context(), name).Val(); left < time.Until(h.Deadline()) {
				return "trusted for longer than it stands"
			}
			return ""
		},
	},
	{
		name: "time to live on the lock", fault: "the holder's process dies",
		mutant: mutant.Hook(lua.Acquire, "local limited = redis.pcall('PEXPIRE', name, lease)", "local limited"),
		try:    endless,
	},
	{
		name: "time to live on the token", fault: "a name is never used again",
		mutant: mutant.Hook(lua.Acquire, "call('SET', tokens, last, 'PX', ARGV[3])", "call('SET', tokens, last)"),
		try:    endless,
	},
	{
		name: "a token by the clock", fault: "the server loses its data",
		mutant: mutant.Hook(lua.Acquire, "local limit, last = ARGV[6], nil", "local limit, last = ARGV[6], nil\n"+
			"token = string.format('%016.0f', (tonumber(call('GET', tokens)) or 0) + 1)"),
		try: func(l *lab) string {
			m := l.mutex(nil)
			var last uint64
			for range 3 {
				h := l.lock(m, l.Context())
				last = h.Token()
				require.NoError(l, h.Unlock(l.Context()))
			}
			require.NoError(l, l.direct.FlushAll(context.Background()).Err())
			if l.lock(m, l.Context()).Token() <= last {
				return "a later grant has a smaller token"
			}
			return ""
		},
	},
}

// endless finds a key that stays if nobody comes any more.
func endless(l *lab) string {
	l.lock(l.mutex(nil), l.Context())
	for _, key := range l.direct.Keys(l.Context(), "*").Val() {
		if l.direct.PTTL(l.Context(), key).Val() < 0 {
			return key + " stays for ever"
		}
	}
	return ""
}

// renewals is how many renewals of a lock were sent, alone or among others, extensions included.
func (l *lab) renewals(key string) int {
	return l.proxy.Seen(func(args []string) bool {
		return l.sends(lua.Renew)(args) && args[3] == key || l.sends(lua.RenewMany)(args) &&
			slices.Contains(args[3:], key)
	})
}
