package controls_test

import (
	"errors"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// Every operation happens at most once. (What of the repeats of the library itself is not here has its controls in the suite
// of each kind, and in the rows of the scripts.)
var retryDefences = []proof{
	{
		name: "commands without retry", fault: "reply of an acquisition lost, go-redis repeats it",
		off: &defence.NoRetry,
		try: func(l *lab) string {
			m := l.mutex(nil)
			l.warm(m)
			l.next(lua.Acquire, faultproxy.DropReply)
			h, err := m.TryLock(l.Context())
			switch {
			case errors.Is(err, holdfast.ErrNotAcquired):
				return "refused because of its own first attempt"
			case err != nil:
				return err.Error()
			case l.count(h) != "1":
				return "held once, counted " + l.count(h)
			}
			return ""
		},
	},
	{
		name: "waiters know of the first", fault: "an attempt without an answer arrives while its waiter sleeps",
		mutant: mutant.Hook(lua.Acquire, "ARGV[4] ~= '1'", "ARGV[4] ~= 'never'"), try: func(l *lab) string {
			m, other := l.mutex(nil), rlock.New(l.around(), name)
			l.warm(m)
			l.lock(other, l.Context())
			l.next(lua.Acquire, faultproxy.BlackHole)
			granted := l.background(m, l.Context())
			require.True(l, l.within(patience, func() bool { return len(l.caught(lua.Acquire)) >= 3 }), "it sleeps")
			require.NoError(l, l.direct.Del(l.Context(), name).Err())
			l.send(l.caught(lua.Acquire)[0])
			require.NoError(l, l.direct.Publish(l.Context(), channel, "0").Err())
			if h, _ := l.outcome(granted); h == nil {
				return "kept out by its own straggler"
			}
			return ""
		},
	},
}
