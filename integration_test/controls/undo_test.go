package controls_test

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// Nothing is left behind by who gives up.
var undoDefences = []proof{
	{
		name: "undo is repeated", fault: "acquisition arrives after the release that undoes it",
		off: &defence.UndoAgain,
		try: func(l *lab) string {
			m := l.mutex(nil)
			l.warm(m)
			undo := l.next(lua.Release, faultproxy.HoldReply)
			straggler := l.abandon(m, l.Context(), faultproxy.BlackHole)
			<-undo.Fired()
			l.send(straggler)
			l.proxy.Clear()
			if !l.comes(l.free) { // the last release comes when the acquisition would be too late, after 1.3 s
				return "granted to nobody, until the lease ends"
			}
			return ""
		},
	},
	{
		name:  "undo goes on for the longest lease",
		fault: "network silent for longer than the lease that a hold was extended to", off: &defence.Longest,
		try: func(l *lab) string {
			given := make(news, 1)
			m := l.mutex(&holdfast.Options{RetryBudget: 500 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(given,
				&slog.HandlerOptions{Level: slog.LevelWarn}))})
			l.warm(m)
			h := l.lock(m, l.Context())
			require.NoError(l, h.Extend(l.Context(), 200*time.Millisecond)) // the server keeps the lease that it has
			l.proxy.LoseRequests(true)
			begun := time.Now()
			require.Error(l, h.Unlock(l.Context())) // not sent, or so late that it counts as lost
			if defence.Longest.Off() {
				<-given // up
			} else {
				require.True(l, l.within(patience, func() bool { return time.Since(begun) > 5*time.Second }))
			}
			l.proxy.LoseRequests(false)
			if !l.comes(l.free) {
				return "never unlocked, until the longer lease ends"
			}
			return ""
		},
	},
	{
		name: "undo after a refusal", fault: "acquisition arrives after its repeat was refused", off: &defence.Undo,
		try: func(l *lab) string {
			m, other := l.mutex(nil), rlock.New(l.around(), name)
			l.warm(m)
			held := l.lock(other, l.Context())
			undo := l.proxy.On(l.sends(lua.Release), 2, faultproxy.HoldReply)
			l.next(lua.Acquire, faultproxy.BlackHole)
			_, err := m.Lock(l.Context(), holdfast.Wait(800*time.Millisecond)) // it is sent again, and refused
			require.ErrorIs(l, err, holdfast.ErrNotAcquired)
			if !defence.Undo.Off() {
				<-undo.Fired() // two more are to come
			}
			require.NoError(l, held.Unlock(l.Context()))
			l.send(l.caught(lua.Acquire)[0])
			l.proxy.Clear()
			if !l.comes(l.free) {
				return "granted to nobody, until the lease ends"
			}
			return ""
		},
	},
}

// news is a log of which only that there is something in it matters.
type news chan struct{}

func (n news) Write(p []byte) (int, error) {
	select {
	case n <- struct{}{}:
	default:
	}
	return len(p), nil
}

// abandon begins to lock and cancels when the fault has met the acquisition. It returns that as it
// was sent.
func (l *lab) abandon(m *rlock.Mutex, ctx context.Context, fault faultproxy.Action) (sent []string) {
	l.Helper()
	rule := l.next(lua.Acquire, fault)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-rule.Fired()
		cancel()
	}()
	_, err := m.Lock(ctx)
	require.ErrorIs(l, err, context.Canceled)
	all := l.caught(lua.Acquire)
	return all[len(all)-1]
}

// caught are the sendings of a script since warm.
func (l *lab) caught(s *lua.Script) (all [][]string) {
	for _, args := range l.proxy.Requests()[l.warmed:] {
		if l.sends(s)(args) {
			all = append(all, args)
		}
	}
	return all
}

// send sends a command as it was caught.
func (l *lab) send(args []string) {
	l.Helper()
	words := make([]any, len(args))
	for i, a := range args {
		words[i] = a
	}
	require.NoError(l, l.direct.Process(l.Context(), redis.NewCmd(l.Context(), words...)))
}
