package controls_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// channel is where releases of the lock are announced.
const channel = "redisson_lock__channel:" + name

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

// stand has a waiter of the holder's client stand behind it.
func (l *lab) stand(m *rlock.Mutex, ctx context.Context) <-chan *holdfast.Hold {
	before := queued()
	granted := l.background(m, ctx)
	require.True(l, l.within(patience, func() bool { return queued() > before }))
	return granted
}

// listen has the server see somebody who waits for the lock in another client.
func (l *lab) listen() *redis.PubSub {
	sub := l.direct.Subscribe(l.Context(), channel)
	l.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(l.Context())
	require.NoError(l, err)
	return sub
}

// patient is a client behind the proxy that waits long for answers, so that one can be held back.
func (l *lab) patient(opts *holdfast.Options) *rlock.Mutex {
	rdb := redistest.NewClient(l, l.proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = patience })
	return rlock.New(kindtest.NewClient(l, rdb, opts), name)
}

// look has a holder ask the server, instead of handing the lock on at once: it waits until that
// time is over.
func (l *lab) look() {
	require.NoError(l, l.direct.Set(l.Context(), "clock", 1, 20*time.Millisecond).Err())
	require.True(l, l.within(patience, func() bool { return l.direct.Exists(l.Context(), "clock").Val() == 0 }))
}

// A lock that is handed on within a client is as good as one from the server.
var handOffDefences = []proof{
	{
		name: "pass outranks renewals", fault: "a renewal finds what pass has released, whose reply is late",
		off: &defence.Believes,
		try: func(l *lab) string {
			heard := make(news, 1)
			m := l.patient(&holdfast.Options{Lease: 3 * time.Second, Logger: slog.New(slog.NewTextHandler(heard, nil))})
			l.warm(m)
			ctx, cancel := context.WithCancel(l.Context())
			defer cancel()
			h := l.lock(m, l.Context())
			l.stand(m, ctx)
			l.listen()
			l.look()
			require.NoError(l, l.direct.ScriptLoad(l.Context(), lua.Pass.Text()).Err()) // or it would be sent twice
			rule := l.next(lua.Pass, faultproxy.HoldReply)
			before := l.proxy.Seen(l.sends(lua.Renew))
			failed := make(chan error, 1)
			go func() { failed <- h.Unlock(l.Context()) }()
			<-rule.Fired()
			// The second renewal is sent when the first one was not believed. One that was is heard
			// of.
			require.True(l, l.within(patience, func() bool {
				return len(heard) > 0 || l.proxy.Seen(l.sends(lua.Renew)) >= before+2
			}))
			rule.Release()
			if err := <-failed; err != nil {
				return "released, and told: " + err.Error()
			}
			return ""
		},
	},
	{
		name: "a late pass finds nobody", fault: "asked twice, and the first question arrives under the next holder",
		off: &defence.LatePass,
		try: func(l *lab) string {
			m := l.mutex(nil)
			l.warm(m)
			require.NoError(l, l.direct.ScriptLoad(l.Context(), lua.Pass.Text()).Err())
			h := l.lock(m, l.Context())
			granted := l.stand(m, l.Context())
			l.look()
			rule := l.proxy.DelayRequest(l.sends(lua.Pass), 1, time.Minute)
			require.NoError(l, h.Unlock(l.Context()))
			h, _ = l.outcome(granted)
			require.NotNil(l, h)
			l.listen()
			before := l.srv.CommandCalls(l)["evalsha"]
			rule.Release()
			require.True(l, l.within(patience, func() bool { return l.srv.CommandCalls(l)["evalsha"] > before }))
			if l.free() {
				return "released under the next holder"
			}
			require.NoError(l, h.Unlock(l.Context()))
			return ""
		},
	},
	{
		name: "who leaves hands back", fault: "a waiter is cancelled in the moment it is handed the lock",
		off: &defence.HandBack,
		try: func(l *lab) string {
			m := l.mutex(nil)
			h := l.lock(m, l.Context())
			ctx := &leaving{l.Context(), make(chan struct{}), make(chan struct{}), make(chan struct{})}
			granted, staying := l.stand(m, ctx), l.stand(m, l.Context())
			close(ctx.ends)
			<-ctx.leaves // and has not left its place yet
			require.NoError(l, h.Unlock(l.Context()))
			close(ctx.goes)
			_, open := <-granted
			require.False(l, open)
			if h, _ = l.outcome(staying); h == nil {
				return "held for nobody"
			}
			return ""
		},
	},
	{
		name: "tokens are reserved", fault: "the last token is ahead of the clock", off: &defence.Reserved,
		try: func(l *lab) string {
			m, other := l.mutex(nil), l.mutex(nil)
			l.warm(m)
			future := time.Now().Add(time.Hour).UnixMicro()
			require.NoError(l, l.direct.Set(l.Context(), "redisson_lock_token:"+name, future, time.Hour).Err())
			defer defence.Look.Without(l)() // else the server is asked often enough
			h := l.lock(m, l.Context())
			var line []<-chan *holdfast.Hold
			for range 20 {
				line = append(line, l.stand(m, l.Context()))
			}
			var tokens []uint64
			for _, granted := range line {
				tokens = append(tokens, h.Token())
				require.NoError(l, h.Unlock(l.Context()))
				h, _ = l.outcome(granted)
				require.NotNil(l, h)
			}
			tokens = append(tokens, h.Token())
			require.NoError(l, h.Unlock(l.Context()))
			h = l.lock(other, l.Context())
			if !slices.IsSorted(tokens) || h.Token() <= tokens[len(tokens)-1] {
				return fmt.Sprintf("token %d after %d", h.Token(), tokens[len(tokens)-1])
			}
			return ""
		},
	},
}

// leaving is a context that ends when ends is closed. Who asks why is kept until goes is.
type leaving struct {
	context.Context
	ends, leaves, goes chan struct{}
}

func (c *leaving) Done() <-chan struct{} { return c.ends }

func (c *leaving) Err() error {
	select {
	case <-c.ends:
	default:
		return nil
	}
	select {
	case <-c.goes:
	case c.leaves <- struct{}{}:
		<-c.goes
	}
	return context.Canceled
}
