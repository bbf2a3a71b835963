package faultproxy

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
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

const text = "return redis.call('INCR', KEYS[1])"

// hash is the script's SHA-1.
var hash = func() string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}()

// setup returns a proxy, a client through it and one that goes straight to the server.
func setup(t *testing.T, change ...func(*redis.Options)) (p *Proxy, through, direct *redis.Client) {
	s := redistest.Shared(t)
	direct = s.Client(t)
	t.Cleanup(func() { direct.Del(context.Background(), t.Name(), t.Name()+":n", t.Name()+":h") }) // for -count
	p = New(t, s.Addr())                                                                           // so it delivers before that what it has kept
	return p, redistest.NewClient(t, p.Addr(), change...), direct
}

// forever is a delay that a test which waits for it would not survive.
const forever = time.Hour

// noRetries is a client that waits as long as a busy machine may take.
func noRetries(o *redis.Options) { o.MaxRetries, o.ReadTimeout = -1, 30*time.Second }

// impatient is one that gives up.
func impatient(o *redis.Options) { o.MaxRetries, o.ReadTimeout = -1, time.Second }

// connected is a client that gives up, and has a connection: to get that may take long on a busy machine.
func connected(t *testing.T, p *Proxy) *redis.Client {
	rdb := redistest.NewClient(t, p.Addr(), impatient)
	require.Eventually(t, func() bool { return rdb.Ping(t.Context()).Err() == nil }, 30*time.Second, time.Millisecond)
	return rdb
}

func incr(ctx context.Context, t *testing.T, rdb *redis.Client) error {
	return rdb.Eval(ctx, text, []string{t.Name()}).Err()
}

// count is how often the script has run.
func count(t *testing.T, direct *redis.Client) int {
	n, err := direct.Get(t.Context(), t.Name()).Int()
	if err != nil {
		require.ErrorIs(t, err, redis.Nil)
	}
	return n
}

func fired(t *testing.T, r *Rule) {
	t.Helper()
	select {
	case <-r.Fired():
	case <-time.After(30 * time.Second):
		t.Fatal("the rule does not fire")
	}
}

// The control that gives DropReply its worth: go-redis's own retry runs a script twice and reports success.
func TestDropReplyRunsAScriptTwiceWithGoRedisRetries(t *testing.T) {
	p, rdb, direct := setup(t)
	r := p.On(Script(hash), 1, DropReply)
	n, err := rdb.Eval(t.Context(), text, []string{t.Name()}).Int()
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, 2, count(t, direct))
	require.Equal(t, 2, p.Seen(Script(hash)))
	require.Equal(t, 1, r.Count())
}

// TestFaults: what the one is told that meets a fault, and how often its script runs. Others do not meet it; nothing is left.
func TestFaults(t *testing.T) {
	on := func(action Action) func(*Proxy) *Rule {
		return func(p *Proxy) *Rule { return p.On(Script(hash), 2, action) }
	}
	type late = func(p *Proxy, match func([]string) bool, nth int, delay time.Duration) *Rule
	after := func(fault late, delay time.Duration) func(*Proxy) *Rule {
		return func(p *Proxy) *Rule { return fault(p, Script(hash), 2, delay) }
	}
	for name, c := range map[string]struct {
		fault func(*Proxy) *Rule
		told  string // empty: that all is well
		runs  int
	}{
		"DropReply":              {on(DropReply), "EOF", 1},
		"DropRequest":            {on(DropRequest), "EOF", 0},
		"Cut":                    {on(Cut), "EOF", 0},
		"BlackHole":              {on(BlackHole), "i/o timeout", 0},
		"HoldReply":              {on(HoldReply), "i/o timeout", 1},
		"KeepRequest":            {after((*Proxy).KeepRequest, forever), "i/o timeout", 0},
		"DelayRequest":           {after((*Proxy).DelayRequest, forever), "i/o timeout", 0},
		"DelayReply":             {after((*Proxy).DelayReply, forever), "i/o timeout", 1},
		"DelayRequest by little": {after((*Proxy).DelayRequest, time.Millisecond), "", 1},
		"DelayReply by little":   {after((*Proxy).DelayReply, time.Millisecond), "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			p, others, direct := setup(t, noRetries)
			one := redistest.NewClient(t, p.Addr(), noRetries)
			if c.told == "i/o timeout" {
				one = connected(t, p)
			}
			r := c.fault(p)
			require.NoError(t, incr(t.Context(), t, others))
			if err := incr(t.Context(), t, one); c.told == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.told)
			}
			fired(t, r)
			require.Equal(t, 1, r.Count())
			require.NoError(t, incr(t.Context(), t, others))
			require.Equal(t, 2+c.runs, count(t, direct))
			require.Equal(t, 3, p.Seen(Script(hash)))
			require.NoError(t, one.Close())
			require.NoError(t, others.Close())
			if name == "DelayRequest" { // until then nobody reads from its connection
				p.Clear()
			}
			require.Eventually(t, func() bool { return p.connections() == 0 }, 30*time.Second, time.Millisecond)
		})
	}
}

// TestReleases: what is held or delayed has run by then, or not, and goes on when it is released.
func TestReleases(t *testing.T) {
	hold := func(p *Proxy) *Rule { return p.On(All(Command("EVAL"), Script(hash)), 1, HoldReply) }
	request := func(p *Proxy) *Rule { return p.DelayRequest(Script(hash), 1, forever) }
	reply := func(p *Proxy) *Rule { return p.DelayReply(Script(hash), 1, forever) }
	for name, c := range map[string]struct {
		hold    func(*Proxy) *Rule
		runs    int
		release func(*Proxy, *Rule)
	}{
		"HoldReply":    {hold, 1, func(_ *Proxy, r *Rule) { r.Release() }},
		"DelayRequest": {request, 0, func(_ *Proxy, r *Rule) { r.Release() }},
		"DelayReply":   {reply, 1, func(p *Proxy, _ *Rule) { p.Clear() }},
		"HoldReply while requests are lost": {hold, 1, func(p *Proxy, r *Rule) {
			p.LoseRequests(true)
			r.Release()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p, rdb, direct := setup(t, noRetries)
			r := c.hold(p)
			result := make(chan error, 1)
			go func() { result <- incr(t.Context(), t, rdb) }()
			fired(t, r)
			require.Equal(t, c.runs, count(t, direct))
			require.Empty(t, result)
			c.release(p, r)
			require.NoError(t, <-result)
			require.Equal(t, 1, count(t, direct))
		})
	}
}

func TestZeroMeansEveryOneUntilClear(t *testing.T) {
	p, rdb, direct := setup(t, noRetries)
	r := p.On(Script(hash), 0, DropRequest)
	for range 3 {
		require.Error(t, incr(t.Context(), t, rdb))
	}
	require.Equal(t, 3, r.Count())
	p.Clear()
	require.NoError(t, incr(t.Context(), t, rdb))
	require.Equal(t, 1, count(t, direct))
}

// connections is the number of open connections.
func (p *Proxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// TestRulesDoNotCountWhatIsSwallowed: a rule's request comes on a connection already swallowed, so the next one meets it.
func TestRulesDoNotCountWhatIsSwallowed(t *testing.T) {
	p, rdb, direct := setup(t, impatient)
	first, second := p.On(Command("append"), 1, BlackHole), p.On(Command("append"), 2, BlackHole)
	pipe := rdb.Pipeline()
	pipe.Append(t.Context(), t.Name(), "a")
	pipe.Append(t.Context(), t.Name(), "b")
	_, err := pipe.Exec(t.Context())
	require.ErrorContains(t, err, "i/o timeout")
	require.Equal(t, []int{1, 0}, []int{first.Count(), second.Count()})
	require.ErrorContains(t, rdb.Append(t.Context(), t.Name(), "c").Err(), "i/o timeout")
	require.Equal(t, 1, second.Count())
	require.Zero(t, direct.Exists(t.Context(), t.Name()).Val())
}

func TestCutAllStopAndStart(t *testing.T) {
	p, rdb, _ := setup(t, noRetries)
	require.NoError(t, rdb.Ping(t.Context()).Err())
	p.CutAll()
	require.Eventually(t, func() bool { return rdb.Ping(t.Context()).Err() == nil }, 30*time.Second, time.Millisecond)
	addr := p.Addr()
	p.Stop()
	p.Stop()
	require.Zero(t, p.connections())
	require.Eventually(t, func() bool { return rdb.Ping(t.Context()).Err() != nil }, 30*time.Second, time.Millisecond)
	_, err := net.Dial("tcp", addr)
	require.ErrorContains(t, err, "refused")
	p.Start()
	p.Start()
	require.Equal(t, addr, p.Addr())
	require.NoError(t, rdb.Ping(t.Context()).Err())
}

func TestAStoppedServerIsAClosedConnection(t *testing.T) {
	s := redistest.Start(t)
	p := New(t, s.Addr())
	rdb := redistest.NewClient(t, p.Addr(), noRetries)
	require.NoError(t, rdb.Ping(t.Context()).Err())
	s.Kill()
	require.Error(t, rdb.Ping(t.Context()).Err())
	s.Restart()
	require.Eventually(t, func() bool { return rdb.Ping(t.Context()).Err() == nil }, 30*time.Second, 2*time.Millisecond)
}

// A fault hits one request of a packet, and those before get replies. (By hand: go-redis reports one lost reply as all lost.)
func TestPipelineIsPairedInOrder(t *testing.T) {
	for hello, replies := range map[string]string{
		"":                                 "*2\r\n$1\r\na\r\n$1\r\n1\r\n:1\r\n",
		"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n": "%1\r\n$1\r\na\r\n$1\r\n1\r\n:1\r\n",
	} {
		t.Run(fmt.Sprintf("hello=%t", hello != ""), func(t *testing.T) {
			p, _, direct := setup(t)
			hash, counter := t.Name()+":h", t.Name()+":n"
			direct.HSet(t.Context(), hash, "a", 1)
			p.On(Arg(1, counter), 5, DropReply)
			conn, err := net.Dial("tcp", p.Addr())
			require.NoError(t, err)
			defer conn.Close()
			var sent, want strings.Builder
			sent.WriteString(hello)
			for i := range 8 {
				fmt.Fprintf(&sent, "HGETALL %s\r\n*2\r\n$4\r\nINCR\r\n$%d\r\n%s\r\n", hash, len(counter), counter)
				if i < 4 {
					want.WriteString(strings.Replace(replies, ":1", fmt.Sprint(":", i+1), 1))
				} else if i == 4 {
					before, _, _ := strings.Cut(replies, ":1")
					want.WriteString(before)
				}
			}
			_, err = conn.Write([]byte(sent.String()))
			require.NoError(t, err)
			got, err := io.ReadAll(conn)
			if err != nil {
				require.ErrorIs(t, err, syscall.ECONNRESET) // closed with requests unread
			}
			if hello != "" {
				require.Regexp(t, "^%", string(got))
				got = got[strings.Index(string(got), "%1\r\n$1\r\na"):]
			}
			require.Equal(t, want.String(), string(got))
			n, _ := direct.Get(t.Context(), counter).Int()
			require.GreaterOrEqual(t, n, 5, "executed")
		})
	}
}

func TestSubscribedConnectionsPassMessages(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			p, rdb, direct := setup(t, func(o *redis.Options) { o.Protocol = protocol })
			p.On(Command("PING"), 0, DropReply) // not for a subscribed connection
			sub := rdb.Subscribe(t.Context(), "a"+t.Name(), "b"+t.Name())
			defer sub.Close()
			require.NoError(t, sub.Ping(t.Context()))
			for i := range 50 {
				require.Eventually(t, func() bool { // SUBSCRIBE may still be on its way
					return direct.PubSubNumSub(t.Context(), "b"+t.Name()).Val()["b"+t.Name()] == 1
				}, 30*time.Second, time.Millisecond)
				direct.Publish(t.Context(), "b"+t.Name(), i)
			}
			for i := range 50 {
				msg, err := sub.ReceiveMessage(t.Context())
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(i), msg.Payload)
			}
		})
	}
}

func TestTheConfirmationOfASubscriptionCanBeLost(t *testing.T) {
	p, rdb, direct := setup(t)
	r := p.On(Command("SUBSCRIBE"), 1, DropReply)
	sub := rdb.Subscribe(t.Context(), t.Name())
	defer sub.Close()
	_, err := sub.Receive(t.Context())
	require.Error(t, err)
	fired(t, r)
	require.Eventually(t, func() bool { // go-redis subscribes again when it next receives
		_, err := sub.ReceiveTimeout(t.Context(), 100*time.Millisecond)
		return err == nil && direct.PubSubNumSub(t.Context(), t.Name()).Val()[t.Name()] == 1
	}, 30*time.Second, 5*time.Millisecond)
}
