package faultproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// restarted has a client ask a server before and after that was started anew, and returns how many connections it made.
func restarted(t *testing.T, change func(*Proxy)) (dials int64) {
	s := redistest.Start(t)
	p := New(t, s.Addr())
	change(p)
	var made atomic.Int64
	rdb := redistest.NewClient(t, p.Addr(), func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			made.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
	})
	id := func() string { return redistest.InfoField(rdb.Info(t.Context(), "server").Val(), "run_id") }
	before := id()
	require.NotEmpty(t, before)
	s.Restart()
	require.Eventually(t, func() bool {
		after := id()
		return after != "" && after != before
	}, 10*time.Second, time.Millisecond)
	return made.Load()
}

func TestConnectionsAreKept(t *testing.T) {
	require.EqualValues(t, 1, restarted(t, (*Proxy).KeepConnections))
	require.Greater(t, restarted(t, func(*Proxy) {}), int64(1), "control: without that they end with the server's")
}

// A request that the server has when it ends is not answered by the next one, and a subscription is not made again.
func TestConnectionsThatAreNotKept(t *testing.T) {
	s := redistest.Start(t)
	p := New(t, s.Addr())
	p.KeepConnections()
	dial := func(words ...string) net.Conn {
		c, err := net.Dial("tcp", p.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		for _, w := range words {
			_, err = c.Write([]byte(w + "\r\n"))
			require.NoError(t, err)
		}
		return c
	}
	waits, listens := dial("BLPOP nothing 0"), dial("SUBSCRIBE nothing")
	buf := make([]byte, 100)
	_, err := listens.Read(buf)
	require.NoError(t, err)
	direct := s.Client(t)
	require.Eventually(t, func() bool {
		return redistest.InfoField(direct.Info(t.Context(), "clients").Val(), "blocked_clients") == "1"
	}, 10*time.Second, time.Millisecond)
	s.Restart()
	ended := func(c net.Conn) bool {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
		_, err := c.Read(buf)
		return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	}
	require.True(t, ended(waits))
	_, err = listens.Write([]byte("PING\r\n"))
	require.NoError(t, err)
	require.True(t, ended(listens))
}

// A request that is kept reaches the server when the client and the rule are gone, or when its time has come.
func TestAKeptRequestArrivesInTheEnd(t *testing.T) {
	p, rdb, direct := setup(t, impatient)
	p.KeepRequest(Script(hash), 1, forever)
	require.ErrorContains(t, incr(t.Context(), t, rdb), "i/o timeout")
	p.Clear()
	p.CutAll()
	require.Zero(t, count(t, direct))
	for range 2 {
		p.Deliver()
		require.Equal(t, 1, count(t, direct), "once")
	}
	p.KeepRequest(Script(hash), 1, time.Millisecond)
	require.ErrorContains(t, incr(t.Context(), t, rdb), "i/o timeout")
	require.Eventually(t, func() bool { return count(t, direct) == 2 }, 10*time.Second, time.Millisecond)
}

// TestOutages: what runs and is heard while one direction or both are silent. Connections that lost nothing work afterwards.
func TestOutages(t *testing.T) {
	for name, c := range map[string]struct {
		outage func(*Proxy, bool)
		runs   int
		heard  bool
	}{
		"Silence":      {(*Proxy).Silence, 0, false},
		"LoseRequests": {(*Proxy).LoseRequests, 0, true},
		"LoseReplies":  {(*Proxy).LoseReplies, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, rdb, direct := setup(t, noRetries)
			sub := redistest.Subscribed(t, rdb, t.Name())
			hears := func(text string) {
				msg, err := sub.ReceiveMessage(t.Context())
				require.NoError(t, err)
				require.Equal(t, text, msg.Payload)
				require.False(t, p.Lost(text))
			}
			one := connected(t, p)
			require.NoError(t, incr(t.Context(), t, rdb))
			require.True(t, p.Calm())
			c.outage(p, true)
			require.False(t, p.Calm())
			require.ErrorContains(t, incr(t.Context(), t, one), "i/o timeout")
			require.Equal(t, 1+c.runs, count(t, direct))
			require.EqualValues(t, 1, direct.Publish(t.Context(), t.Name(), "meanwhile").Val())
			if c.heard {
				hears("meanwhile")
			} else {
				require.Eventually(t, func() bool { return p.Lost("meanwhile") }, 30*time.Second, time.Millisecond)
			}
			c.outage(p, false)
			rule := p.On(Any, 1000, Cut)
			require.False(t, p.Calm())
			rule.Clear()
			require.True(t, p.Calm())
			require.NoError(t, incr(t.Context(), t, rdb))
			require.Equal(t, 2+c.runs, count(t, direct))
			require.NoError(t, sub.Ping(t.Context()), "it lost nothing")
			direct.Publish(t.Context(), t.Name(), "heard")
			hears("heard")
		})
	}
}

// A connection's second reply must not pass for that of its lost first request. (By hand: go-redis closes after a timeout.)
func TestAConnectionThatLostARequestLosesAllThatFollow(t *testing.T) {
	p, rdb, direct := setup(t)
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer conn.Close()
	send := func() {
		_, err := fmt.Fprintf(conn, "INCR %s\r\n", t.Name())
		require.NoError(t, err)
	}
	p.LoseRequests(true)
	send()
	require.Eventually(t, func() bool { return p.Seen(Command("INCR")) == 1 }, 30*time.Second, time.Millisecond)
	// by then the first request has been dealt with
	require.ErrorContains(t, redistest.NewClient(t, p.Addr(), impatient).Ping(t.Context()).Err(), "i/o timeout")
	p.LoseRequests(false)
	send()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, rdb.Ping(t.Context()).Err(), "a new connection works")
	require.Zero(t, count(t, direct))
}

// TestDistance: everything arrives, in order, each way; also what was sent before a side closed.
func TestDistance(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	echoed := make(chan []string, 1)
	go func() {
		var lines []string
		defer func() { echoed <- lines }()
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		for in := bufio.NewScanner(conn); in.Scan(); {
			lines = append(lines, in.Text())
			if _, err := fmt.Fprintln(conn, in.Text()); err != nil {
				return
			}
		}
	}()
	conn, err := net.Dial("tcp", Distance(t, ln.Addr().String(), 20*time.Millisecond))
	require.NoError(t, err)
	var sent []string
	in := bufio.NewScanner(conn)
	for i := range 50 {
		sent = append(sent, fmt.Sprint("line ", i))
		begun := time.Now()
		_, err = fmt.Fprintln(conn, sent[i])
		require.NoError(t, err)
		if i%10 == 0 { // the others go together
			for got := ""; got != sent[i]; got = in.Text() {
				require.True(t, in.Scan())
			}
			require.GreaterOrEqual(t, time.Since(begun), 40*time.Millisecond, "never earlier")
		}
	}
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	for in.Scan() {
	}
	require.NoError(t, conn.Close())
	require.Equal(t, sent, <-echoed)
}
