package fairlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// TestLeaveWhileAsked: a waiter whose question the network keeps leaves at once. What the question
// comes to, when it reaches the server after all, is given back.
func TestLeaveWhileAsked(t *testing.T) {
	l := newLine(t)
	first := wait(t.Context(), t, l.rdb, l.faulty) // so the next one's question is asked for it
	kept := l.proxy.DelayRequest(script(lua.FairAcquire), 1, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	left := begin(ctx, t, l.faulty.Lock)
	<-kept.Fired()
	given := l.proxy.Seen(script(lua.FairRelease))
	cancel()
	require.ErrorIs(t, left.Err(), context.Canceled)
	kept.Release()
	eventually(t, "it is given back", func() bool { return l.proxy.Seen(script(lua.FairRelease)) > given })
	eventually(t, "nothing is left", func() bool { return len(queued(t, l.rdb, "line")) == 1 })
	l.drained(first)
}

// TestLeaversTogether: those who leave a queue while others of the client are given back cost one script, not one each.
// The first of them is kept on its way while the others leave.
func TestLeaversTogether(t *testing.T) {
	releases := func() int {
		const leavers = 150
		l := newLine(t)
		before := l.proxy.Seen(script(lua.FairRelease))
		ctx, cancel := context.WithCancel(t.Context())
		first := begin(ctx, t, l.faulty.Lock)
		rest, leave := context.WithCancel(t.Context())
		defer leave()
		var others []*kindtest.Pending
		for range leavers {
			others = append(others, begin(rest, t, l.faulty.Lock))
		}
		eventually(t, "places", func() bool { return len(queued(t, l.rdb, "line")) == leavers+1 })
		kept := l.proxy.DelayRequest(script(lua.FairRelease), 1, time.Hour)
		cancel()
		<-kept.Fired()
		leave()
		for _, p := range append(others, first) {
			require.ErrorIs(t, p.Err(), context.Canceled)
		}
		kept.Release()
		eventually(t, "nothing is left", func() bool { return len(queued(t, l.rdb, "line")) == 0 })
		l.drained()
		return l.proxy.Seen(script(lua.FairRelease)) - before
	}
	require.Less(t, releases(), 20)
	defer defence.Together.Without(t)()
	require.Greater(t, releases(), 100, "control: one each")
}

// TestQuestionsOvertake: questions that the network keeps do not hold up those that come later. The
// control: without that they do.
func TestQuestionsOvertake(t *testing.T) {
	require.True(t, placedBeside(t, patience))
	defer defence.Overtake.Without(t)()
	require.False(t, placedBeside(t, 3*time.Second), "the fault is none")
}

// placedBeside reports whether a waiter gets its place while as many questions of its client as are
// sent at the same time have no answer.
func placedBeside(t *testing.T, within time.Duration) bool {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	slow, proxy := kindtest.Behind(t, srv.Addr(), time.Minute)
	client, other := newClient(t, slow, nil), newClient(t, rdb, nil)
	ctx, leave := context.WithCancel(t.Context())
	for _, name := range []string{"a", "b"} {
		_ = lock(t, fairlock.New(other, name))
		wait(ctx, t, rdb, fairlock.New(client, name))
	}
	const flights = 2
	var ended [flights + 1]chan struct{}
	enter := func(i int, name string) {
		ended[i] = make(chan struct{})
		go func() {
			defer close(ended[i])
			_, _ = fairlock.New(client, name).Lock(ctx)
		}()
	}
	var kept [flights]*faultproxy.Rule
	for i := range kept {
		kept[i] = proxy.DelayRequest(script(lua.FairAcquire), 1, time.Hour)
		enter(i, "a")
		<-kept[i].Fired()
	}
	enter(flights, "b")
	defer func() {
		leave()
		for i, done := range ended {
			if i < flights {
				kept[i].Release()
			}
			<-done
		}
	}()
	for end := time.Now().Add(within); time.Now().Before(end); {
		if len(queued(t, rdb, "b")) == 2 {
			return true
		}
	}
	return false
}

// lateWord has the word of a grant come to a waiter when the claim has ended with which that was made, and another
// client has the lock. say sends it.
func lateWord(t *testing.T) (w *kindtest.Pending, other *holdfast.Hold, token uint64, say func()) {
	const claim = 100 * time.Millisecond
	rdb := redistest.Shared(t).Client(t)
	name, c := uniqueName(t), newClient(t, rdb, nil)
	other = lock(t, fairlock.New(newClient(t, rdb, nil), name))
	w = wait(t.Context(), t, rdb, fairlock.New(c, name))
	granted, err := rdb.Time(t.Context()).Result()
	require.NoError(t, err)
	eventually(t, "a claim from then has ended", func() bool {
		now, err := rdb.Time(t.Context()).Result()
		return err == nil && now.After(granted.Add(2*claim))
	})
	number, token := strings.TrimPrefix(queued(t, rdb, name)[0], c.ID()+":"), other.Token()+1
	word := fmt.Sprintf("%s %d %d %d", number, token, granted.UnixMicro(), claim.Milliseconds())
	return w, other, token, func() {
		require.EqualValues(t, 1, rdb.Publish(t.Context(), "redisson_lock__channel:{"+name+"}:"+c.ID(), word).Val())
	}
}

// TestLateWord: such a word is not trusted. The waiter asks, and is granted the lock after the other one.
func TestLateWord(t *testing.T) {
	w, other, token, say := lateWord(t)
	say()
	unlock(t, other)
	h := w.Hold()
	require.Greater(t, h.Token(), token)
	unlock(t, h)
}

// TestLateWordControl: where a grant counts from when it was heard of, two are inside.
func TestLateWordControl(t *testing.T) {
	defer defence.GrantTime.Without(t)()
	w, other, token, say := lateWord(t)
	eventually(t, "it is trusted", func() bool { say(); return w.Over() })
	require.NoError(t, other.Context().Err(), "the other one has the lock")
	h := w.Hold()
	require.Equal(t, token, h.Token())
	_ = h.Unlock(t.Context())
	unlock(t, other)
}

// TestWhoHasItNow: a waiter that leaves is told who had the lock when its client looked last, and
// not who had it when it came.
func TestWhoHasItNow(t *testing.T) {
	const later = "3f0c2a4e-0c67-4f0e-9a52-6d9d6f1a7b11:7"
	srv := redistest.Start(t)
	rdb, proxy := srv.Client(t), faultproxy.New(t, srv.Addr())
	require.NoError(t, rdb.ScriptLoad(t.Context(), lua.FairPoll.Text()).Err()) // or the first would be seen twice
	m := fairlock.New(newClient(t, redistest.NewClient(t, proxy.Addr()), nil), "a")
	require.NoError(t, rdb.Eval(t.Context(), "redis.call('HSET', KEYS[1], ARGV[1], 1); return redis.call('PEXPIRE', KEYS[1], 60000)",
		[]string{"a"}, "3f0c2a4e-0c67-4f0e-9a52-6d9d6f1a7b11:6").Err())
	ctx, cancel := context.WithCancel(t.Context())
	left := begin(ctx, t, m.Lock)
	eventually(t, "it waits", func() bool { return len(queued(t, rdb, "a")) == 1 })
	require.NoError(t, rdb.Eval(t.Context(), "redis.call('DEL', KEYS[1]); redis.call('HSET', KEYS[1], ARGV[1], 1); return redis.call('PEXPIRE', KEYS[1], 60000)",
		[]string{"a"}, later).Err())
	polls := func() int { return proxy.Seen(faultproxy.Script(lua.FairPoll.Hash())) }
	before := polls()
	eventually(t, "its client has looked, after the answer to its question, and knows what came of it",
		func() bool { return polls() >= before+3 })
	cancel()
	err := left.Err()
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "held by "+later+", whose lease ha")
}

// TestStoppedClientCostsOneClaim: five waiters of a client that listens and does nothing, as one
// that is stopped, stand before a live one. That is granted the lock when the first claim has
// ended, and the other four have kept their places.
func TestStoppedClientCostsOneClaim(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	name := uniqueName(t)
	holder, m := fairlock.New(newClient(t, rdb, nil), name), fairlock.New(newClient(t, rdb, nil), name)
	h := lock(t, holder)
	const stopped = "00000000-0000-0000-0000-000000000000"
	mailbox(t, rdb, name, stopped)
	var want []string
	for i := range 5 {
		owner := fmt.Sprintf("%s:h%d", stopped, i)
		want = append(want, owner)
		foreign(t, rdb, name, owner, 15*time.Second) // as if it was put off now
	}
	w := wait(t.Context(), t, rdb, m)
	unlock(t, h)
	h = w.Hold()
	require.Equal(t, want[1:], queued(t, rdb, name))
	unlock(t, h)
}

// TestServerForgetsPlaces: a waiter whose place is lost with all data finds out by its next poll,
// and need not wait for the one that puts all places off.
func TestServerForgetsPlaces(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	holder, m := fairlock.New(newClient(t, rdb, nil), "forgets"),
		fairlock.New(newClient(t, srv.Client(t), nil), "forgets")
	_ = lock(t, holder)
	w := wait(t.Context(), t, rdb, m)
	eventually(t, "a poll", func() bool { return polls(t, rdb) > 0 })
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	before := polls(t, rdb)
	h := w.Hold()
	require.LessOrEqual(t, polls(t, rdb)-before, int64(2), "polls")
	unlock(t, h)
}

// polls is how often a script has counted the deadlines of those who were handed the lock, which
// only polls do.
func polls(t *testing.T, rdb *redis.Client) (calls int64) {
	stats, err := rdb.InfoMap(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	if text := stats["Commandstats"]["cmdstat_zcount"]; text != "" {
		_, err = fmt.Sscanf(text, "calls=%d", &calls)
		require.NoError(t, err)
	}
	return calls
}
