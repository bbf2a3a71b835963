package controls_test

import (
	"runtime"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
)

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
			m := l.mutex(nil)
			l.warm(m)
			h := l.lock(m, l.Context())
			ear := l.listen()
			require.NoError(l, h.Unlock(l.Context()))
			require.NoError(l, l.direct.Publish(l.Context(), channel, "the next one").Err())
			heard, err := ear.ReceiveMessage(l.Context())
			require.NoError(l, err)
			if heard.Payload == "the next one" {
				return "nobody who waits hears of it"
			}
			return ""
		},
	},
}
