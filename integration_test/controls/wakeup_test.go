package controls_test

import (
	"context"
	"runtime"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
)

// crowd is how many waiters give up at once.
const crowd = 100

// queued is how many goroutines wait in the local queues of all clients, without those on their way
// in or out.
func queued() (n int) {
	stacks := make([]byte, 4<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		state, frames, _ := strings.Cut(stack, "\n")
		if strings.Contains(state, "[select") && strings.Contains(frames, "queue.(*Ticket).Wait(") {
			n++
		}
	}
	return n
}

// No waiter sleeps through its wake-up. The lease is 30 s; what is granted later than that is never
// granted here.
var wakeUpDefences = []proof{
	{
		name: "a subscription is a wake-up", fault: "released after the waiter asked and before it was subscribed",
		off: &defence.Rewake,
		try: func(l *lab) string {
			m, waiter := l.mutex(nil), l.mutex(nil)
			l.warm(m)
			l.lock(m, l.Context())
			rule := l.proxy.On(faultproxy.Command("SUBSCRIBE"), 1, faultproxy.HoldReply)
			granted := l.background(waiter, l.Context())
			<-rule.Fired()
			require.NoError(l, l.direct.Del(l.Context(), name).Err()) // as if it had been announced a moment earlier
			l.proxy.Clear()
			if h, _ := l.outcome(granted); h == nil {
				return "slept on while the lock was free"
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
	{
		name: "releases are announced", fault: "none: a lock is unlocked",
		mutant: mutant.Hook(lua.Release, "local sent = redis.pcall(command, to, text)", "local sent = 0"),
		try: func(l *lab) string {
			m, waiter := l.mutex(nil), l.mutex(nil)
			l.warm(m)
			h := l.lock(m, l.Context())
			tries := l.sends(lua.Acquire)
			before := l.proxy.Seen(tries)
			granted := l.background(waiter, l.Context())
			// It tries once to be told the time, once for the lock, and once more when it is
			// subscribed.
			require.True(l, l.within(patience, func() bool { return l.proxy.Seen(tries) == before+3 }),
				"the waiter sleeps")
			require.NoError(l, h.Unlock(l.Context()))
			if h, _ := l.outcome(granted); h == nil {
				return "slept on while the lock was free"
			}
			return ""
		},
	},
	{
		name: "wake-ups are passed on", fault: "a waiter is cancelled in the moment it is woken", off: &defence.PassOn,
		try: func(l *lab) string {
			m := l.mutex(nil)
			before := queued() // of the round before, which may have stranded some
			rounds := 20
			if defence.PassOn.Off() {
				rounds = 2000 // the moment is short; it ends with the first that meets it
			}
			for range rounds {
				h := l.lock(m, l.Context(), holdfast.NoHandoff())
				ctx, cancel := context.WithCancel(l.Context())
				var leaving []<-chan *holdfast.Hold
				for range crowd {
					leaving = append(leaving, l.background(m, ctx, holdfast.NoHandoff()))
				}
				require.True(l, l.within(patience, func() bool { return queued() == before+crowd }))
				staying := l.background(m, l.Context(), holdfast.NoHandoff())
				require.True(l, l.within(patience, func() bool { return queued() == before+crowd+1 }))
				go cancel() // of so many at once, one is always about to leave when its turn comes
				require.NoError(l, h.Unlock(l.Context()))
				for _, granted := range leaving {
					if h, _ := l.outcome(granted); h != nil {
						require.NoError(l, h.Unlock(l.Context()))
					}
				}
				h, _ = l.outcome(staying)
				if h == nil {
					return "slept on while the lock was free"
				}
				require.NoError(l, h.Unlock(l.Context()))
			}
			return ""
		},
	},
}
