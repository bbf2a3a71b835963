package rlock_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// says waits until Redis has the label of a client.
func says(t *testing.T, rdb redis.UniversalClient, c *holdfast.Client, label string) {
	t.Helper()
	eventually(t, "the label is written", func() bool { return rdb.Get(t.Context(), keys.Label(c.ID())).Val() == label })
	left := rdb.PTTL(t.Context(), keys.Label(c.ID())).Val()
	require.Positive(t, left)
	require.LessOrEqual(t, left, 90*time.Second)
}

// TestLabel: who holds or waits says who it is until it is closed, and errors name it.
func TestLabel(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	name := uniqueName(t)
	holder := newClient(t, rdb, &holdfast.Options{Label: "holder über 1"})
	waiter := newClient(t, rdb, &holdfast.Options{Label: "waiter", LongWait: longWait})
	idle := newClient(t, rdb, &holdfast.Options{Label: "idle"})
	h := lock(t, rlock.New(holder, name))
	says(t, rdb, holder, "holder über 1")

	err := refused(t.Context(), t, rlock.New(idle, name).TryLock)
	require.NotContains(t, err.Error(), "über", "it is not known yet")
	_, err = rlock.New(holder, name).TryLock(t.Context())
	require.ErrorContains(t, err, h.Owner()+" (holder über 1), whose lease")

	defer waitsFor(t.Context(), rlock.New(waiter, name), 1)()
	says(t, rdb, waiter, "waiter")
	eventually(t, "who waits for long knows for whom", func() bool {
		err := refused(t.Context(), t, rlock.New(waiter, name).TryLock)
		return strings.Contains(err.Error(), h.Owner()+" (holder über 1), whose lease")
	})
	require.Zero(t, rdb.Exists(t.Context(), keys.Label(idle.ID())).Val(), "it has nothing, and waited for nothing")
	require.NoError(t, holder.Close(t.Context()))
	require.Zero(t, rdb.Exists(t.Context(), keys.Label(holder.ID())).Val())
}

// TestLabelOfAnybody: what stands at a client's key is in errors only if a client could say it of itself, for
// errors come to terminals and logs. The control is a label that one could.
func TestLabelOfAnybody(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	waiter := newClient(t, rdb, &holdfast.Options{Label: "waiter", LongWait: longWait})
	// waits has a holder with that label waited for, and returns what its waiters are told.
	waits := func(label string) (told func() string) {
		name, holder := uniqueName(t), newClient(t, rdb, nil)
		require.NoError(t, rdb.Set(t.Context(), keys.Label(holder.ID()), label, time.Minute).Err())
		h := lock(t, rlock.New(holder, name))
		stop := waitsFor(t.Context(), rlock.New(waiter, name), 1)
		t.Cleanup(func() {
			stop()
			require.NoError(t, h.Unlock(context.Background()))
		})
		return func() string {
			_, err := rlock.New(waiter, name).TryLock(t.Context())
			require.ErrorContains(t, err, h.Owner())
			return err.Error()
		}
	}
	bad := []string{"\x1b[31mred", strings.Repeat("x", 201)}
	var told []func() string
	for _, label := range bad {
		told = append(told, waits(label))
	}
	for _, good := range []string{"plain", "plain, and read after all others"} {
		told := waits(good)
		eventually(t, "its label was read", func() bool { return strings.Contains(told(), "("+good+")") })
	}
	for i, label := range bad {
		require.NotContains(t, told[i](), label)
	}
}

// TestLabelCosts: a hundred locks send it once, Close deletes it once, and without a label nothing is sent.
func TestLabelCosts(t *testing.T) {
	cost := func(label string) map[string]int64 {
		srv := redistest.Start(t)
		c := newClient(t, srv.Client(t), &holdfast.Options{Label: label})
		m := rlock.New(c, "a")
		for i := range 100 {
			h := lock(t, m)
			if i == 0 && label != "" {
				says(t, srv.Client(t), c, label)
				srv.ResetStats(t)
			} else if i == 0 {
				srv.ResetStats(t)
			}
			unlock(t, h)
		}
		require.NoError(t, c.Close(t.Context()))
		return srv.CommandCalls(t)
	}
	with, without := cost("a label"), cost("")
	require.Positive(t, without["set"], "of the token: the calls of scripts are counted")
	require.Equal(t, without["set"], with["set"], "one is enough for 100 locks")
	require.Equal(t, without["del"]+1, with["del"])

	srv := redistest.Start(t)
	c := newClient(t, srv.Client(t), nil)
	unlock(t, lock(t, rlock.New(c, "a")))
	require.NoError(t, c.Close(t.Context()))
	require.Equal(t, int64(1), srv.CommandCalls(t)["set"], "the token")
}

// TestLabelNotPermitted: a user who may not write it locks all the same, and is told once.
func TestLabelNotPermitted(t *testing.T) {
	srv := redistest.Start(t)
	admin := srv.Client(t)
	require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "plain", "on", ">p", "+@all", "~a*", "~redisson_lock*", "&*").Err())
	rdb := redistest.NewClient(t, srv.Addr(), func(o *redis.Options) { o.Username, o.Password = "plain", "p" })
	log := &noted{}
	c := newClient(t, rdb, &holdfast.Options{Label: "label", Logger: slog.New(slog.NewTextHandler(log, nil))})
	for range 10 {
		unlock(t, lock(t, rlock.New(c, "a")))
	}
	require.NoError(t, c.Close(t.Context()))
	require.Len(t, log.lines(), 1)
	require.Contains(t, log.lines()[0], "the label of this client could not be written")
	require.Contains(t, log.lines()[0], "NOPERM")
}

func TestBadLabel(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	for label, part := range map[string]string{
		strings.Repeat("x", 201): "Options.Label has 201 bytes; use at most 200",
		"a\nb":                   `Options.Label is "a\nb", and a character in it cannot be printed; use letters`,
		"\x1b[31m":               `Options.Label is "\x1b[31m"`,
		"\xff":                   "which is not UTF-8; use text",
		"a\u202eb":               "cannot be printed",
	} {
		_, err := holdfast.New(rdb, &holdfast.Options{Label: label})
		require.ErrorIs(t, err, holdfast.ErrInvalid)
		require.ErrorContains(t, err, part)
	}
	_, err := holdfast.New(rdb, &holdfast.Options{LongWait: time.Millisecond})
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	require.ErrorContains(t, err, "Options.LongWait is 1ms; use at least 10ms, 0 for the default of 10s, or a negative duration to turn it off")
	c, err := holdfast.New(rdb, &holdfast.Options{Label: strings.Repeat("x", 200), LongWait: -1})
	require.NoError(t, err)
	require.NoError(t, c.Close(t.Context()))
}
