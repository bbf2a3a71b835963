package controls_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
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
			defer defence.SilentWay.Without(l)() // or it is given back once more because the answer is overdue
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
			given := make(kindtest.Lines, 1)
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
				require.True(l, redistest.Within(patience, func() bool { return time.Since(begun) > 5*time.Second }))
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

// abandon begins to lock and cancels when the fault has met the acquisition. It returns that as it was sent.
func (l *lab) abandon(m *rlock.Mutex, ctx context.Context, fault faultproxy.Action) (sent []string) {
	rule := l.next(lua.Acquire, fault)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-rule.Fired()
		cancel()
	}()
	require.ErrorIs(l, kindtest.Err(m.Lock(ctx)), context.Canceled)
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
	words := make([]any, len(args))
	for i, a := range args {
		words[i] = a
	}
	require.NoError(l, l.direct.Process(l.Context(), redis.NewCmd(l.Context(), words...)))
}

// Every operation happens at most once. (Other repeats have controls in each kind's suite and in the rows of the scripts.)
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
			require.True(l, redistest.Within(patience, func() bool { return len(l.caught(lua.Acquire)) >= 3 }), "it sleeps")
			require.NoError(l, l.direct.Del(l.Context(), name).Err())
			l.send(l.caught(lua.Acquire)[0])
			require.NoError(l, l.direct.Publish(l.Context(), channel, "0").Err())
			if h := l.outcome(granted); h == nil {
				return "kept out by its own straggler"
			}
			return ""
		},
	},
}

// short is a lease that is renewed within a test, and that a busy machine renews in time.
var short = &holdfast.Options{Lease: 3 * time.Second}

// Everything ends by itself, and then has no owner. (One folder up: a failover and a grant that too few replicas have.)
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
			require.True(l, redistest.Within(patience, func() bool { return l.renewals("other") >= want }))
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
			if h := l.outcome(l.background(waiter, l.Context())); h == nil {
				return "slept on while the lock was free"
			}
			return ""
		},
	},
}

// renewals is how many renewals of a lock were sent, alone or among others, extensions included.
func (l *lab) renewals(key string) int {
	return l.proxy.Seen(func(args []string) bool {
		return l.sends(lua.Renew)(args) && args[3] == key || l.sends(lua.RenewMany)(args) && slices.Contains(args[3:], key)
	})
}

// A fair lock serves in order, and nobody who is gone holds up the others for long.
var fairDefences = []proof{
	{
		name: "asked for when messages come", fault: "the lock is released before the waiter is subscribed",
		off: &defence.Listening,
		try: func(l *lab) string {
			holder, first := fairlock.New(l.client(nil), name), fairlock.New(l.client(nil), name)
			second := fairlock.New(l.around(), name)
			h := l.lock(holder, l.Context())
			rule := l.proxy.DelayRequest(faultproxy.Command("SUBSCRIBE"), 1, time.Hour)
			defer rule.Release()
			l.background(first, l.Context())
			<-rule.Fired()
			long := time.Duration(1) // a place is not to be expected
			if l.off {
				long = patience
			}
			placed := redistest.Within(long, func() bool { return len(l.queue()) > 0 })
			before := len(l.queue())
			granted := l.background(second, l.Context())
			require.True(l, redistest.Within(patience, func() bool { return len(l.queue()) > before }), "it waits")
			require.NoError(l, h.Unlock(l.Context()))
			if h := l.outcome(granted); h != nil && placed {
				return "had a place, and one who came later was granted the lock"
			}
			return ""
		},
	},
}

// queue are the owners in the queue.
func (l *lab) queue() []string {
	list, err := l.direct.LRange(context.Background(), "redisson_lock_queue:"+name, 0, -1).Result()
	require.NoError(l, err)
	return list
}

// channel is where releases of the lock are announced.
const channel = "redisson_lock__channel:" + name

// queued is how many goroutines wait in the local queues of all clients, without those on their way in or out.
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
func (l *lab) stand(m *rlock.Mutex, ctx context.Context) *kindtest.Pending {
	before := queued()
	granted := l.background(m, ctx)
	require.True(l, redistest.Within(patience, func() bool { return queued() > before }))
	return granted
}

// listen has the server see somebody who waits for the lock in another client.
func (l *lab) listen() { redistest.Subscribed(l, l.direct, channel) }

// look has a holder ask the server, instead of handing the lock off at once: it waits until that time is over.
func (l *lab) look() {
	require.NoError(l, l.direct.Set(l.Context(), "clock", 1, 20*time.Millisecond).Err())
	require.True(l, redistest.Within(patience, func() bool { return l.direct.Exists(l.Context(), "clock").Val() == 0 }))
}

// A lock that is handed off within a client is as good as one from the server.
var handOffDefences = []proof{
	{
		name: "pass outranks renewals", fault: "a renewal finds what pass has released, whose reply is late",
		off: &defence.Believes,
		try: func(l *lab) string {
			heard := make(kindtest.Lines, 1)
			rdb := redistest.NewClient(l, l.proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = patience }) // an answer is held back
			opts := &holdfast.Options{Lease: 3 * time.Second, Logger: slog.New(slog.NewTextHandler(heard, nil))}
			m := rlock.New(kindtest.NewClient(l, rdb, opts), name)
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
			// The second renewal is sent when the first one was not believed. One that was is heard of.
			require.True(l, redistest.Within(patience, func() bool {
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
			h = l.outcome(granted)
			require.NotNil(l, h)
			l.listen()
			before := l.srv.CommandCalls(l)["evalsha"]
			rule.Release()
			require.True(l, redistest.Within(patience, func() bool { return l.srv.CommandCalls(l)["evalsha"] > before }))
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
			require.ErrorIs(l, granted.Err(), context.Canceled)
			if h = l.outcome(staying); h == nil {
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
			var line []*kindtest.Pending
			for range 20 {
				line = append(line, l.stand(m, l.Context()))
			}
			var tokens []uint64
			for _, granted := range line {
				tokens = append(tokens, h.Token())
				require.NoError(l, h.Unlock(l.Context()))
				h = l.outcome(granted)
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
