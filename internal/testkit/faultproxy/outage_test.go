package faultproxy

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestOutages: what runs and what is heard while nothing passes, or nothing in one direction. Connections that lost
// nothing, and new ones, work when it is over.
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
			sub := rdb.Subscribe(t.Context(), t.Name())
			defer sub.Close()
			_, err := sub.Receive(t.Context())
			require.NoError(t, err)
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

// A connection that lost one request must not get the reply to its next one: the client would take
// it for the first's. It is written by hand because go-redis closes a connection whose reply did
// not come in time.
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
