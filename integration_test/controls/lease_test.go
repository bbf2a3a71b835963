package controls_test

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// short is a lease that is renewed within a test, and that a busy machine renews in time.
var short = &holdfast.Options{Lease: 3 * time.Second}

// Everything ends by itself, and what has ended is nobody's. (What a failover does to a grant that too few
// replicas have is shown one folder up.)
var leaseDefences = []proof{
	{
		name: "renewal ends with the hold", fault: "a lock is unlocked, another one is held on", off: &defence.Bound,
		try: func(l *lab) string {
			c := l.client(short)
			m := rlock.New(c, name)
			l.warm(m)
			other := l.lock(rlock.New(c, "other"), l.Context())
			require.NoError(l, l.lock(m, l.Context()).Unlock(l.Context()))
			before := l.renewals(name)
			want := l.renewals("other") + 2
			require.True(l, l.within(patience, func() bool { return l.renewals("other") >= want }))
			require.NoError(l, other.Unlock(l.Context()))
			if l.renewals(name) > before {
				return "renewed after it was unlocked"
			}
			return ""
		},
	},
	{
		name: "a lease's end is a wake-up", fault: "the holder's process dies", off: &defence.LeaseEnd,
		try: func(l *lab) string {
			waiter := l.mutex(nil)
			require.NoError(l, l.direct.HSet(l.Context(), name, "dead", 1).Err())
			require.NoError(l, l.direct.PExpire(l.Context(), name, 700*time.Millisecond).Err())
			if h, _ := l.outcome(l.background(waiter, l.Context())); h == nil {
				return "slept on while the lock was free"
			}
			return ""
		},
	},
}

// renewals is how many renewals of a lock were sent, alone or among others, extensions included.
func (l *lab) renewals(key string) int {
	return l.proxy.Seen(func(args []string) bool {
		return l.sends(lua.Renew)(args) && args[3] == key || l.sends(lua.RenewMany)(args) &&
			slices.Contains(args[3:], key)
	})
}
