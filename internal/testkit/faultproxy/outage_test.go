package faultproxy

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// forever is a delay that a test which waits for it would not survive.
const forever = time.Hour

func TestADelayedRequestHasNotRunUntilThen(t *testing.T) {
	p, rdb, direct := setup(t)
	r := p.DelayRequest(Script(hash), 1, forever)
	result := make(chan error, 1)
	go func() { result <- incr(t.Context(), t, rdb) }()
	fired(t, r)
	require.NoError(t, incr(t.Context(), t, rdb), "another connection is not delayed")
	require.Equal(t, 1, count(t, direct), "the delayed one has not run")
	require.Empty(t, result)
	r.Release()
	require.NoError(t, <-result)
	require.Equal(t, 2, count(t, direct))
}

func TestADelayedReplyHasRun(t *testing.T) {
	p, rdb, direct := setup(t)
	r := p.DelayReply(Script(hash), 1, forever)
	result := make(chan error, 1)
	go func() { result <- incr(t.Context(), t, rdb) }()
	fired(t, r)
	require.Equal(t, 1, count(t, direct))
	require.Empty(t, result)
	p.Clear()
	require.NoError(t, <-result)
}

// A client that has more patience than the delay succeeds, one that has less does not.
func TestDelaysEndByThemselves(t *testing.T) {
	for name, delay := range map[string]func(p *Proxy, d time.Duration) *Rule{
		"request": func(p *Proxy, d time.Duration) *Rule { return p.DelayRequest(Script(hash), 0, d) },
		"reply":   func(p *Proxy, d time.Duration) *Rule { return p.DelayReply(Script(hash), 0, d) },
	} {
		t.Run(name, func(t *testing.T) {
			p, rdb, _ := setup(t, noRetries)
			r := delay(p, 20*time.Millisecond)
			require.NoError(t, incr(t.Context(), t, rdb))
			require.Equal(t, 1, r.Count())
			hasty := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1,
				ReadTimeout: 100 * time.Millisecond})
			defer hasty.Close()
			p.Clear()
			delay(p, forever)
			require.ErrorContains(t, incr(t.Context(), t, hasty), "i/o timeout")
		})
	}
}

func TestLostRequestsDoNotRunAndMessagesPass(t *testing.T) {
	p, rdb, direct := setup(t, impatient)
	sub := rdb.Subscribe(t.Context(), t.Name())
	defer sub.Close()
	_, err := sub.Receive(t.Context())
	require.NoError(t, err)
	require.NoError(t, incr(t.Context(), t, rdb))
	p.LoseRequests(true)
	require.ErrorContains(t, incr(t.Context(), t, rdb), "i/o timeout")
	require.Equal(t, 1, count(t, direct))
	require.EqualValues(t, 1, direct.Publish(t.Context(), t.Name(), "heard").Val())
	msg, err := sub.ReceiveMessage(t.Context())
	require.NoError(t, err)
	require.Equal(t, "heard", msg.Payload)
	require.False(t, p.Lost("heard"))
	p.LoseRequests(false)
	require.NoError(t, incr(t.Context(), t, rdb))
	require.Equal(t, 2, count(t, direct))
	require.NoError(t, sub.Ping(t.Context()), "it lost nothing")
	_, err = sub.ReceiveTimeout(t.Context(), 5*time.Second)
	require.NoError(t, err)
}

func TestRepliesStillDuePassWhileRequestsAreLost(t *testing.T) {
	p, rdb, _ := setup(t)
	r := p.On(Script(hash), 1, HoldReply)
	result := make(chan error, 1)
	go func() { result <- incr(t.Context(), t, rdb) }()
	fired(t, r)
	p.LoseRequests(true)
	r.Release()
	require.NoError(t, <-result)
}

func TestRequestsRunWhileRepliesAreLost(t *testing.T) {
	p, rdb, direct := setup(t, impatient)
	sub := rdb.Subscribe(t.Context(), t.Name())
	defer sub.Close()
	_, err := sub.Receive(t.Context())
	require.NoError(t, err)
	require.NoError(t, incr(t.Context(), t, rdb))
	p.LoseReplies(true)
	require.ErrorContains(t, incr(t.Context(), t, rdb), "i/o timeout")
	require.Equal(t, 2, count(t, direct))
	require.EqualValues(t, 1, direct.Publish(t.Context(), t.Name(), "lost").Val())
	_, err = sub.ReceiveTimeout(t.Context(), 100*time.Millisecond)
	require.ErrorContains(t, err, "i/o timeout")
	require.Eventually(t, func() bool { return p.Lost("lost") }, 30*time.Second, time.Millisecond)
	require.False(t, p.Lost("heard"))
	p.LoseReplies(false)
	require.NoError(t, incr(t.Context(), t, rdb))
	require.Equal(t, 3, count(t, direct))
	direct.Publish(t.Context(), t.Name(), "heard")
	msg, err := sub.ReceiveMessage(t.Context())
	require.NoError(t, err)
	require.Equal(t, "heard", msg.Payload)
	require.False(t, p.Lost("heard"))
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
	require.ErrorContains(t, impatientPing(t, p), "i/o timeout") // by then the first request has been dealt with
	p.LoseRequests(false)
	send()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, rdb.Ping(t.Context()).Err(), "a new connection works")
	require.Zero(t, count(t, direct))
}

func impatientPing(t *testing.T, p *Proxy) error {
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1, ReadTimeout: 100 * time.Millisecond})
	defer rdb.Close()
	return rdb.Ping(t.Context()).Err()
}
