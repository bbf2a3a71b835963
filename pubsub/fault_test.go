package pubsub

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// quick lets go-redis give up on a silent server soon.
func quick(o *redis.Options) {
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond, 200*time.Millisecond
	o.MaxRetries = -1
}

func TestKilledConnectionIsReplaced(t *testing.T) {
	_, rdb, h := started(t, Options{})
	s := joined(t, h, "name")
	for range 5 {
		before := subscribers(t, rdb)
		require.Len(t, before, 1)
		require.NoError(t, rdb.Do(t.Context(), "client", "kill", "type", "pubsub").Err())
		woken(t, s) // the loss
		eventually(t, "a new connection", func() bool {
			now := subscribers(t, rdb)
			return len(now) == 1 && now[0] != before[0] && stateOf(h, "name") == confirmed
		})
		woken(t, s) // the confirmation
		publish(t, rdb, "name", 1)
		woken(t, s)
	}
	require.NoError(t, s.Err())
}

// TestPanickingDialer: a dialer of the user's that panics is one that failed.
func TestPanickingDialer(t *testing.T) {
	server := redistest.Start(t)
	var dials atomic.Int32
	rdb := server.Client(t, func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials.Add(1) <= 2 {
				panic("dialer")
			}
			var d net.Dialer
			return d.DialContext(ctx, network, addr)
		}
	})
	h := newHub(t, rdb, Options{})
	s := h.Subscribe("name")
	defer s.Close()
	awaitConfirmed(t, h, "name")
	require.EqualValues(t, 3, dials.Load())
}

// TestEndsWhileItOpens: a connection that opens in the moment in which it is to end ends, however the keeper's choice between
// the two falls. It read on for ever, and Close waited for it, half of the time.
func TestEndsWhileItOpens(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	for range 20 {
		h := newHub(t, rdb, Options{})
		l := newLink(h, h.home)
		c := l.dial()
		<-c.opened
		h.cancel()
		served := make(chan error, 1)
		go func() { served <- l.serve(c) }()
		limit := time.NewTimer(patience)
		defer limit.Stop()
		select {
		case err := <-served:
			require.Error(t, err)
		case <-limit.C:
			t.Fatal("the connection reads on")
		}
	}
}

func TestServerRestarts(t *testing.T) {
	server, rdb, h := started(t, Options{}, quick)
	s := joined(t, h, "name")
	server.Kill()
	woken(t, s)
	during := h.Subscribe("during") // while there is nobody
	defer during.Close()
	server.Restart()
	awaitConfirmed(t, h, "name")
	awaitConfirmed(t, h, "during")
	woken(t, s)
	woken(t, during)
	hasToken(during) // of the outage
	publish(t, rdb, "during", 1)
	woken(t, during)
	publish(t, rdb, "name", 1)
	woken(t, s)
	require.Equal(t, 1, h.Stats().Connections)
}

// A stopped server keeps its connections open and says nothing: only the ping finds out.
func TestSilentServerIsLeft(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t, quick)
	const ping = 50 * time.Millisecond
	h := newHub(t, rdb, Options{Ping: ping})
	s := joined(t, h, "name")
	before := subscribers(t, rdb)
	blind := newHub(t, rdb, Options{Ping: time.Hour})
	control := joined(t, blind, "name")

	server.Pause()
	woken(t, s)
	require.False(t, hasToken(control), "woken without ping: the test shows nothing")
	require.Equal(t, 1, blind.Stats().Connections)
	server.Resume()
	awaitConfirmed(t, h, "name")
	woken(t, s)
	eventually(t, "the old connection gone", func() bool { return !slices.Contains(subscribers(t, rdb), before[0]) })
	publish(t, rdb, "name", 2)
	woken(t, s)
}

// A quiet channel on a healthy server is pinged and kept.
func TestQuietConnectionIsKept(t *testing.T) {
	server, rdb, h := started(t, Options{Ping: 150 * time.Millisecond})
	s := joined(t, h, "name")
	before := subscribers(t, rdb)
	server.ResetStats(t)
	eventually(t, "three pings", func() bool { return server.CommandCalls(t)["ping"] >= 3 })
	require.Equal(t, before, subscribers(t, rdb))
	require.False(t, hasToken(s))
}

func limited(t *testing.T, server *redistest.Server) func(*redis.Options) {
	t.Helper()
	if server.Major() == 6 && server.Version() < "6.2" {
		t.Skip("ACLs for channels came with 6.2")
	}
	err := server.Client(t).Do(t.Context(), "acl", "setuser", "limited", "on", ">secret", "~*", "+@all",
		"resetchannels", "&allowed*").Err()
	require.NoError(t, err)
	return func(o *redis.Options) { o.Username, o.Password = "limited", "secret" }
}

// The server refuses a command as a whole and does not say for which channel.
func TestDeniedChannel(t *testing.T) {
	server := redistest.Start(t)
	user := limited(t, server)
	for _, defended := range []bool{true, false} {
		rdb, open := server.Client(t, user), make(chan struct{})
		rdb.AddHook(gate(open))
		if !defended {
			t.Cleanup(defence.Probing.Without(t))
		}
		h := newHub(t, rdb, Options{})
		denied, allowed := h.Subscribe("denied"), h.Subscribe("allowed1")
		close(open) // in one command
		woken(t, denied)
		require.ErrorContains(t, denied.Err(), "NOPERM")
		woken(t, allowed)
		if !defended {
			require.ErrorContains(t, allowed.Err(), "NOPERM", "the control was not refused")
			denied.Close()
			allowed.Close()
			continue
		}
		require.NoError(t, allowed.Err())
		awaitConfirmed(t, h, "allowed1")
		publish(t, rdb, "allowed1", 1)
		woken(t, allowed)
		allowed.Close()
		denied.Close()

		again := h.Subscribe("denied") // is asked for again: the ACL may have changed
		woken(t, again)
		require.Error(t, again.Err())
		again.Close()
	}
}

func TestWrongPasswordIsTold(t *testing.T) {
	server := redistest.Start(t)
	limited(t, server)
	rdb := server.Client(t, func(o *redis.Options) { o.Username, o.Password = "limited", "wrong" })
	h := newHub(t, rdb, Options{})
	s := h.Subscribe("name")
	defer s.Close()
	woken(t, s)
	require.ErrorContains(t, s.Err(), "WRONGPASS")
	eventually(t, "nothing left", func() bool { return h.Stats() == Stats{Subscribers: 1} })
}

func TestClosedClientIsTold(t *testing.T) {
	_, rdb, h := started(t, Options{})
	s := joined(t, h, "name")
	require.NoError(t, rdb.Close())
	eventually(t, "the error", func() bool { return s.Err() != nil })
	require.ErrorIs(t, s.Err(), redis.ErrClosed)
	woken(t, s)
}

// The reader closes a broken connection's PubSub, and the keeper may write to it a moment later.
// That looks like a closed client and must not become the subscribers' permanent error.
func TestWriteAfterBreakIsNotPermanent(t *testing.T) {
	rdb := redistest.NewClient(t, "127.0.0.1:1")
	h := newHub(t, rdb, Options{})
	c := &conn{link: newLink(h, h.home), ps: rdb.Subscribe(t.Context())}
	require.NoError(t, c.ps.Close())
	require.True(t, permanent(c.send(command{kind: pingCommand})), "go-redis tells them apart now")
	err := c.write(command{kind: pingCommand})
	require.Error(t, err)
	require.False(t, permanent(err))
}

// Errors of the network are not permanent, and an outage wakes once, not once per attempt.
func TestOutageWakesOnce(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t, quick)
	server.Kill()
	var dials atomic.Int64
	rdb.AddHook(beforeDial(func(context.Context) { dials.Add(1) }))
	h := newHub(t, rdb, Options{})
	s := h.Subscribe("name")
	defer s.Close()
	woken(t, s)
	require.NoError(t, s.Err())
	before := dials.Load()
	eventually(t, "more attempts", func() bool { return dials.Load() >= before+4 })
	require.False(t, hasToken(s))
}

// A listener that accepts nothing answers nothing: go-redis hangs in the handshake, Close does not.
func TestCloseWhileConnecting(t *testing.T) {
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	rdb := redistest.NewClient(t, hole.Addr().String(), func(o *redis.Options) { o.ReadTimeout = time.Hour })
	h := New(rdb, Options{})
	s := h.Subscribe("name")
	defer s.Close()
	conn, err := hole.Accept()
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1)) // the dial is over, the handshake has begun
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, h.Close(ctx), context.DeadlineExceeded)
	woken(t, s)
	require.ErrorIs(t, s.Err(), ErrClosed)
	require.Positive(t, h.Stats().Goroutines, "the handshake is over: the test shows nothing")

	require.NoError(t, conn.Close()) // what the client's ReadTimeout would do
	require.NoError(t, hole.Close())
	require.NoError(t, h.Close(t.Context()))
}

// TestLeftWhileSubscribing: everybody leaves a channel whose subscription is still on its way. It is unsubscribed all the same.
func TestLeftWhileSubscribing(t *testing.T) {
	server := redistest.Start(t)
	rdb, proxy := server.Client(t), faultproxy.New(t, server.Addr())
	h := newHub(t, redistest.NewClient(t, proxy.Addr()), Options{Linger: time.Millisecond, Ping: time.Hour})
	joined(t, h, "stays")
	rule := proxy.DelayRequest(faultproxy.All(faultproxy.Command("SUBSCRIBE"), faultproxy.Arg(1, "left")), 1, time.Hour)
	s := h.Subscribe("left")
	eventually(t, "it is on its way", func() bool { return rule.Count() == 1 })
	require.Equal(t, subscribing, stateOf(h, "left"))
	s.Close()
	eventually(t, "it is forgotten", func() bool { return stateOf(h, "left") == gone })
	rule.Release()
	joined(t, h, "later") // commands come in their order
	require.Equal(t, map[string]int64{"left": 0, "later": 1}, rdb.PubSubNumSub(t.Context(), "left", "later").Val())
}
