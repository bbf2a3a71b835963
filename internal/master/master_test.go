package master

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// TestIsReplica: a server says its role in both protocols.
func TestIsReplica(t *testing.T) {
	home, away := redistest.Start(t), redistest.Start(t)
	host, port, err := net.SplitHostPort(home.Addr())
	require.NoError(t, err)
	away.Command(t, "REPLICAOF", host, port)
	for _, protocol := range []int{2, 3} {
		for srv, replica := range map[*redistest.Server]bool{home: false, away: true} {
			rdb := srv.Client(t, func(o *redis.Options) { o.Protocol = protocol })
			require.Equal(t, replica, IsReplica(rdb.Do(t.Context(), "hello").Val()))
		}
	}
	require.False(t, IsReplica("no map"))
}

// A server is looked at again only when a connection to it was made, and every restart makes one.
func TestRun(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	m := New(rdb)
	require.Nil(t, m.Known())
	look := func() (*Run, error) { return m.Run(t.Context()) }
	first, err := look()
	require.NoError(t, err)
	require.NotEmpty(t, first.ID)
	require.False(t, first.Follows, "nothing is known of what was before")
	require.WithinDuration(t, time.Now(), first.Since, 10*time.Second)
	settled, err := look() // the first look made a connection itself
	require.NoError(t, err)
	again, err := look()
	require.NoError(t, err)
	require.Same(t, settled, again, "nothing is asked while no connection is made")
	require.Equal(t, first.Since, again.Since, "the age is taken once")

	srv.Restart()
	var next *Run
	require.Eventually(t, func() bool {
		next, err = look()
		return rdb.Ping(t.Context()).Err() == nil && err == nil && next.ID != first.ID
	}, 10*time.Second, time.Millisecond)
	require.True(t, next.Follows)
	require.Same(t, next, m.Known())
}

// A server that was there before the one that it follows took over from it, as a replica does: its age says nothing.
func TestTakeOver(t *testing.T) {
	srv := redistest.Start(t)
	m := New(srv.Client(t))
	m.run.Store(&Run{ID: "another", Since: time.Now().Add(-time.Hour), seen: time.Now().Add(time.Hour), dials: 1000})
	r, err := m.Run(t.Context())
	require.NoError(t, err)
	require.True(t, r.Follows)
	require.WithinDuration(t, time.Now(), r.Since, 10*time.Second)
}

func TestDoubt(t *testing.T) {
	now, lease := time.Now(), time.Minute
	for what, c := range map[string]struct {
		run    Run
		first  time.Duration // age of the oldest
		doubts bool
	}{
		"old":                                 {Run{Since: now.Add(-2 * time.Minute)}, time.Hour, false},
		"old, and follows another":            {Run{Since: now.Add(-2 * time.Minute), Follows: true}, time.Hour, false},
		"young, and follows another":          {Run{Since: now, Follows: true}, 0, true},
		"young as all the others":             {Run{Since: now}, time.Second, false},
		"young, and others are older":         {Run{Since: now}, 10 * time.Second, true},
		"nearly old enough, others are older": {Run{Since: now.Add(-59 * time.Second)}, time.Hour, true},
	} {
		err := c.run.Doubt(lease, now.Add(-c.first))
		require.Equal(t, c.doubts, err != nil, what)
		if err != nil {
			require.ErrorContains(t, err, "its vote counts in")
		}
	}
}

// Who does not answer is asked one question at a time, and not waited for.
func TestSilence(t *testing.T) {
	m := New(redistest.Shared(t).Client(t))
	begin := func(patience time.Duration) (bool, bool) {
		defer m.Asks()
		return m.Begin(patience)
	}
	send, silent := m.Begin(time.Hour)
	require.True(t, send)
	require.False(t, silent)
	require.Zero(t, m.Silence(), "it waits for its turn")
	m.Unsent()
	send, silent = begin(time.Hour)
	require.True(t, send)
	require.False(t, silent)
	require.Eventually(t, func() bool { return m.Silence() > time.Millisecond }, time.Second, time.Microsecond)

	send, silent = begin(time.Millisecond)
	require.False(t, send, "one is under way")
	require.True(t, silent)
	send, silent = begin(time.Hour)
	require.True(t, send, "it may still answer")
	require.False(t, silent)
	why := errors.New("why")
	m.End(why)
	m.End(why)
	require.Equal(t, why, m.Failure())
	send, silent = begin(time.Millisecond)
	require.True(t, send, "to find out")
	require.True(t, silent)
	m.End(nil)
	require.Zero(t, m.Silence())
	require.NoError(t, m.Failure())
	send, silent = begin(time.Nanosecond)
	require.True(t, send)
	require.False(t, silent)
	m.End(nil)
}

// TestProbe: a probe that is answered ends the silence, and so does one that the server refuses.
func TestProbe(t *testing.T) {
	srv := redistest.Start(t)
	stranger := func(o *redis.Options) { o.Username, o.Password = "nobody", "wrong" }
	for name, c := range map[string]struct {
		rdb     *redis.Client
		answers bool
	}{
		"answers": {srv.Client(t), true},
		"refuses": {srv.Client(t, stranger), true},
		"is gone": {redistest.NewClient(t, "127.0.0.1:1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(c.rdb)
			send, _ := m.Begin(time.Hour)
			require.True(t, send)
			m.Probe(t.Context())
			require.Equal(t, c.answers, m.Silence() == 0)
			require.Equal(t, c.answers, m.Failure() == nil)
			send, _ = m.Begin(time.Nanosecond)
			require.True(t, send, "nothing is under way")
			m.End(nil)
		})
	}
}

func TestParse(t *testing.T) {
	id, age, err := parse("# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nuptime_in_seconds:12\r\nuptime_in_days:0\r\n")
	require.NoError(t, err)
	require.Equal(t, "abc", id)
	require.Equal(t, 11*time.Second, age, "it may have been cut")
	for _, bad := range []string{"", "run_id:abc", "uptime_in_seconds:1", "run_id:abc\nuptime_in_seconds:x"} {
		_, _, err := parse(bad)
		require.ErrorContains(t, err, "INFO has no run_id", bad)
	}
	_, age, err = parse("run_id:abc\nuptime_in_seconds:-7194")
	require.NoError(t, err, "its clock was set back")
	require.Zero(t, age)
	_, age, err = parse("run_id:abc\nuptime_in_seconds:" + strings.Repeat("9", 18))
	require.NoError(t, err)
	require.Positive(t, age)
}

func TestInfoFails(t *testing.T) {
	srv := redistest.Start(t)
	m := New(srv.Client(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "since when it runs")
	require.Nil(t, m.Known())
}

// The pace follows the last answers.
func TestPace(t *testing.T) {
	var m Master
	require.Zero(t, m.Pace())
	m.Took(time.Millisecond)
	require.Equal(t, time.Millisecond, m.Pace())
	for range 20 {
		m.Took(time.Second)
	}
	require.Greater(t, m.Pace(), 900*time.Millisecond)
	for range 40 {
		m.Took(0)
	}
	require.Less(t, m.Pace(), time.Millisecond)
}

// Why there is no connection is known before go-redis says so: it dials again first.
func TestFailureToDial(t *testing.T) {
	dialled := make(chan struct{}, 100)
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1",
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialled <- struct{}{}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}})
	m := New(rdb)
	done := make(chan error)
	go func() { done <- rdb.Ping(t.Context()).Err() }()
	<-dialled
	require.Eventually(t, func() bool { return errors.Is(m.Failure(), syscall.ECONNREFUSED) }, 10*time.Second,
		time.Millisecond)
	require.Error(t, <-done)
	require.NoError(t, rdb.Close())
}

// TestDialCalledOff: go-redis calls a dial off when whoever wanted the connection has another one, or has left. That
// says nothing of the server; that there was no time to reach it does.
func TestDialCalledOff(t *testing.T) {
	m := &Master{}
	dial := dials{m}.DialHook(func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := dial(ctx, "tcp", "")
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, m.Failure())
	ctx, cancel = context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	_, _ = dial(ctx, "tcp", "")
	require.ErrorIs(t, m.Failure(), context.DeadlineExceeded)
}
