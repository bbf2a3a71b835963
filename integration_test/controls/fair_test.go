package controls_test

import (
	"context"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
)

// A fair lock serves in order, and nobody who is gone holds up the others for long.
var fairDefences = []proof{
	{
		name: "a claim ends", fault: "who is handed the lock hears of it and is dead",
		mutant: mutant.Hook(lua.FairRelease, "id and claim or", "id and 60000 or"),
		try: func(l *lab) string {
			holder := l.fair()
			l.warmFair(holder)
			h := l.lockFair(holder)
			sub := l.direct.Subscribe(l.Context(), "redisson_lock__channel:"+name+":dead")
			defer sub.Close()
			_, err := sub.Receive(l.Context())
			require.NoError(l, err)
			l.deadWaiter("dead")
			require.NoError(l, h.Unlock(l.Context()))
			require.Equal(l, "dead:h1", l.holder())
			if l.direct.PTTL(l.Context(), name).Val() > 5*time.Second {
				return "the dead one holds the lock"
			}
			return ""
		},
	},
	{
		name: "places are given back", fault: "a waiter is cancelled",
		mutant: mutant.Hook(lua.FairRelease, "elseif call('ZCARD', deadlines) > 0 then", "elseif false then"),
		try: func(l *lab) string {
			c := l.client(nil)
			holder, waiter := l.fair(), fairlock.New(c, name)
			l.warmFair(holder)
			l.lockFair(holder)
			ctx, cancel := context.WithCancel(l.Context())
			granted := l.inQueue(waiter, ctx)
			cancel()
			<-granted
			require.NoError(l, c.Close(l.Context())) // joins the background: nothing more will come
			if len(l.queue()) > 0 {
				return "its place stays"
			}
			return ""
		},
	},
	{
		name: "a release hands on", fault: "none: a lock is unlocked",
		mutant: mutant.Hook(lua.FairRelease, "return grant(ARGV[2], tonumber(ARGV[3]), ARGV[4])", "return nil"),
		try: func(l *lab) string {
			defer defence.Poll.Without(l)() // which would make up for it within a second
			holder, waiter := l.fair(), l.fair()
			l.warmFair(holder)
			h := l.lockFair(holder)
			granted := l.inQueue(waiter, l.Context())
			owner := l.queue()[0]
			require.NoError(l, h.Unlock(l.Context()))
			if l.holder() != owner {
				return "free while somebody waits"
			}
			next, _ := l.outcome(granted)
			require.NotNil(l, next)
			return ""
		},
	},
	{
		name: "nobody barges", fault: "the lock ends by its lease while somebody waits",
		mutant: mutant.Hook(lua.FairAcquire, "if not first or first == owner then", "if true then"),
		try: func(l *lab) string {
			defer defence.Poll.Without(l)() // the one who waits is not to be the first to see it
			holder, waiter, other := l.fair(), l.fair(), l.fair()
			l.warmFair(holder)
			l.lockFair(holder)
			l.inQueue(waiter, l.Context())
			require.NoError(l, l.direct.Del(l.Context(), name).Err())
			if _, err := other.TryLock(l.Context()); err == nil {
				return "passed one who waits"
			}
			return ""
		},
	},
	{
		name: "what was handed over is found", fault: "the message of a grant is lost",
		mutant: mutant.Hook(lua.FairAcquire, "(ARGV[4] == '1' or place > 0) and call('HEXISTS', name, owner) == 1",
			"false"),
		try: func(l *lab) string {
			holder, waiter := l.fair(), l.fair()
			l.warmFair(holder)
			h := l.lockFair(holder)
			granted := l.inQueue(waiter, l.Context())
			owner := l.queue()[0]
			// Handed over, and nobody told: the poll finds the holder, and the waiter asks.
			require.NoError(l, l.direct.Eval(l.Context(), `redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
redis.call('HSET', KEYS[1], ARGV[1], 1) redis.call('PEXPIRE', KEYS[1], 10000) return 1`,
				[]string{name, "redisson_lock_queue:" + name, "redisson_lock_timeout:" + name}, owner).Err())
			defer func() { _ = h.Unlock(l.Context()) }()
			if !l.comes(func() bool { return len(granted) > 0 }) {
				return "waits behind itself"
			}
			return ""
		},
	},
	{
		name: "asked for when messages come", fault: "the lock is released before the waiter is subscribed",
		off: &defence.Listening,
		try: func(l *lab) string {
			holder, first, second := l.fair(), l.fair(), l.fairAround()
			l.warmFair(holder)
			h := l.lockFair(holder)
			rule := l.proxy.DelayRequest(faultproxy.Command("SUBSCRIBE"), 1, time.Hour)
			defer rule.Release()
			l.enter(first, l.Context())
			<-rule.Fired()
			placed := l.happens(func() bool { return len(l.queue()) > 0 })
			granted := l.inQueue(second, l.Context())
			require.NoError(l, h.Unlock(l.Context()))
			if l.notGranted(granted) == "" && placed {
				return "had a place, and one who came later was granted the lock"
			}
			return ""
		},
	},
}

// fair makes the fair lock on a client of its own, fairAround on one that meets no faults.
func (l *lab) fair() *fairlock.Mutex       { return fairlock.New(l.client(nil), name) }
func (l *lab) fairAround() *fairlock.Mutex { return fairlock.New(l.around(), name) }

func (l *lab) lockFair(m *fairlock.Mutex) *holdfast.Hold {
	l.Helper()
	h, err := m.Lock(l.Context(), holdfast.Wait(patience))
	require.NoError(l, err)
	return h
}

// warmFair makes the scripts known to the server, mutants included.
func (l *lab) warmFair(m *fairlock.Mutex) {
	l.Helper()
	require.NoError(l, l.lockFair(m).Unlock(l.Context()))
	require.NoError(l, l.direct.FlushAll(l.Context()).Err())
}

// enter runs a Lock beside the test.
func (l *lab) enter(m *fairlock.Mutex, ctx context.Context) <-chan *holdfast.Hold {
	granted := make(chan *holdfast.Hold, 1)
	go func() {
		defer close(granted)
		if h, err := m.Lock(ctx); err == nil {
			granted <- h
		}
	}()
	return granted
}

// inQueue is enter that returns when the waiter has its place, behind those that are there.
func (l *lab) inQueue(m *fairlock.Mutex, ctx context.Context) <-chan *holdfast.Hold {
	l.Helper()
	before := len(l.queue())
	granted := l.enter(m, ctx)
	require.True(l, l.within(patience, func() bool { return len(l.queue()) > before }), "it waits")
	return granted
}

// notGranted is how the promise is broken to one who should have the lock by now.
func (l *lab) notGranted(granted <-chan *holdfast.Hold) string {
	if h, _ := l.outcome(granted); h == nil {
		return "slept on while the lock was free"
	}
	return ""
}

// queue are the owners in the queue.
func (l *lab) queue() []string {
	l.Helper()
	list, err := l.direct.LRange(context.Background(), "redisson_lock_queue:"+name, 0, -1).Result()
	require.NoError(l, err)
	return list
}

// deadWaiter puts one into the queue whose process is gone.
func (l *lab) deadWaiter(client string) {
	l.Helper()
	owner := client + ":h" + string(rune('1'+len(l.queue())))
	until := time.Now().Add(time.Minute).UnixMilli()
	require.NoError(l, l.direct.Eval(l.Context(), strings.Join([]string{
		`redis.call('RPUSH', KEYS[1], ARGV[1])`, `redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])`,
		`redis.call('PEXPIRE', KEYS[1], 60000)`, `redis.call('PEXPIRE', KEYS[2], 60000)`, `return 1`,
	}, "\n"), []string{"redisson_lock_queue:" + name, "redisson_lock_timeout:" + name}, owner, until).Err())
}
