package controls_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// channel is where releases of the lock are announced.
const channel = "redisson_lock__channel:" + name

// stand has a waiter of the holder's client stand behind it.
func (l *lab) stand(m *rlock.Mutex, ctx context.Context) <-chan *holdfast.Hold {
	l.Helper()
	before := queued()
	granted := l.background(m, ctx)
	require.True(l, l.within(patience, func() bool { return queued() > before }))
	return granted
}

// listen has the server see somebody who waits for the lock in another client.
func (l *lab) listen() {
	l.Helper()
	sub := l.direct.Subscribe(l.Context(), channel)
	l.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(l.Context())
	require.NoError(l, err)
}

// patient is a client behind the proxy that waits long for answers, so that one can be held back.
func (l *lab) patient(opts *holdfast.Options) *rlock.Mutex {
	rdb := redistest.NewClient(l, l.proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = patience })
	return rlock.New(l.clientOn(rdb, opts), name)
}

// look has a holder ask the server, instead of handing the lock on at once: it waits until that
// time is over.
func (l *lab) look() {
	l.Helper()
	require.NoError(l, l.direct.Set(l.Context(), "clock", 1, 20*time.Millisecond).Err())
	require.True(l, l.within(patience, func() bool { return l.direct.Exists(l.Context(), "clock").Val() == 0 }))
}

// throng locks and unlocks in several goroutines of a client, until the test has seen enough. None
// unlocks before another one waits.
func (l *lab) throng(m *rlock.Mutex) (stop func()) {
	ctx, cancel := context.WithCancel(l.Context())
	before := queued()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				h, err := m.Lock(ctx)
				if err != nil {
					return
				}
				for ctx.Err() == nil && queued() == before {
					runtime.Gosched()
				}
				if err := h.Unlock(ctx); err != nil {
					l.Error(err)
				}
			}
		})
	}
	require.True(l, l.within(patience, func() bool { // whoever comes now finds it held
		return queued() > before && l.direct.Exists(l.Context(), name).Val() == 1
	}))
	return func() { cancel(); group.Wait() }
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
			rule.Release()
			if l.happens(l.free) {
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
			rounds := 20
			if defence.HandBack.Off() {
				rounds = 2000 // the moment is short; it ends with the first that meets it
			}
			for range rounds {
				h := l.lock(m, l.Context())
				ctx, cancel := context.WithCancel(l.Context())
				var leaving []<-chan *holdfast.Hold
				before := queued()
				for range crowd {
					leaving = append(leaving, l.background(m, ctx))
				}
				require.True(l, l.within(patience, func() bool { return queued() == before+crowd }))
				staying := l.stand(m, l.Context())
				go cancel() // of so many at once, one is always about to leave when it is handed the lock
				require.NoError(l, h.Unlock(l.Context()))
				for _, granted := range leaving {
					if h, _ := l.outcome(granted); h != nil {
						require.NoError(l, h.Unlock(l.Context()))
					}
				}
				h, _ = l.outcome(staying)
				if h == nil {
					return "held for nobody"
				}
				require.NoError(l, h.Unlock(l.Context()))
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
	{
		name: "others are looked for", fault: "none: a client's goroutines hand the lock on for ever",
		off: &defence.Look,
		try: func(l *lab) string {
			if defence.Look.Off() { // the server is also asked when the tokens are used up
				defer defence.Reserved.Without(l)()
			}
			m, other := l.mutex(nil), l.mutex(nil)
			defer l.throng(m)()
			if h, _ := l.outcome(l.background(other, l.Context())); h == nil {
				return "another client never got it"
			} else {
				require.NoError(l, h.Unlock(l.Context()))
			}
			return ""
		},
	},
	{
		name: "others are let go first", fault: "another client is a little further away", off: &defence.LetGo, tries: 5,
		// it asks less than three times for each, and eight times without
		try: func(l *lab) string { return l.farAway(1, 50, 230) },
	},
	{
		name: "head starts", fault: "another client is 20 ms away", off: &defence.HeadStart, tries: 5,
		// about once for each; without, never
		try: func(l *lab) string { return l.tooLate(1, 20*time.Millisecond, 5, 30) },
	},
	{
		name: "all keep to head starts", fault: "one of four clients is 20 ms away", off: &defence.HeadStart, tries: 5,
		try: func(l *lab) string { return l.tooLate(3, 20*time.Millisecond, 5, 60) },
	},
	{
		name: "clients take turns", fault: "one of four clients is a little further away", off: &defence.Turns, tries: 5,
		try: func(l *lab) string { return l.farAway(3, 20, 300) }, // six times for each; without, a hundred times
	},
}

// farAway has near clients use the lock all the time, and another one that is a millisecond away
// get it so many times. Asking more often than most is too often.
func (l *lab) farAway(near, grants, most int) string {
	defer defence.HeadStart.Without(l)() // it would do for so near a client
	other := l.mutex(nil)                // only this one is behind the proxy
	l.warm(other)
	l.proxy.DelayRequest(l.sends(lua.Acquire), 0, time.Millisecond)
	for range near {
		defer l.throng(rlock.New(l.around(), name))()
	}
	ctx, cancel := context.WithCancel(l.Context())
	defer cancel()
	tries := func() int { return l.proxy.Seen(l.sends(lua.Acquire)) }
	first := tries()
	for range grants {
		granted := l.background(other, ctx)
		var h *holdfast.Hold
		for h == nil {
			if tries()-first > most {
				return fmt.Sprintf("not %d times in %d attempts", grants, most)
			}
			h, _ = l.outcome(granted)
		}
		require.NoError(l, h.Unlock(l.Context()))
	}
	return ""
}
