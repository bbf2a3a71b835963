package remote

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/combine"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/task"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// TestClasses: a timeout is not shorter than asked for, and at most an eighth longer. There are few, each with its number.
func TestClasses(t *testing.T) {
	known := map[int]time.Duration{}
	for d := least; d < 10*time.Second; d += 100 * time.Microsecond {
		rounded, at := class(d)
		require.GreaterOrEqual(t, rounded, d)
		require.LessOrEqual(t, rounded, d+d/8+time.Millisecond)
		if before, is := known[at]; is {
			require.Equal(t, before, rounded)
		}
		known[at] = rounded
	}
	require.Less(t, len(known), 70)
	_, at := class(1<<63 - 1)
	require.Less(t, at, len(timeouts{}.of8))
}

// counter is a hook that counts.
type counter struct{ commands, pipelines int }

func (*counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.commands++
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.pipelines++
		return next(ctx, cmds)
	}
}

// hurried is a command with a timeout.
type hurried struct {
	*redis.Cmd
	timeout time.Duration
}

func (h *hurried) SetTimeout(d time.Duration) { h.timeout = d }

func (h *hurried) TakeTimeout() (d time.Duration) {
	d, h.timeout = h.timeout, 0
	return d
}

// TestTimeoutsCallHooks: the hooks of the user's client see each command once, whenever they were
// added, and also if several Holdfast clients share the client. The clients with timeouts have no
// hooks. A go-redis that gives them hooks would call the user's hooks twice.
func TestTimeoutsCallHooks(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	before, between, after := &counter{}, &counter{}, &counter{}
	rdb.AddHook(before)
	one := newTimeouts(rdb, time.Minute)
	rdb.AddHook(between)
	two := newTimeouts(rdb, time.Minute)
	require.NoError(t, rdb.Ping(t.Context()).Err()) // there is a connection
	for i, hooks := range [][]*counter{{before, between}, {before, between, after}} {
		if i > 0 {
			rdb.AddHook(after)
		}
		for _, ts := range []*timeouts{one, two} {
			for _, hook := range hooks {
				*hook = counter{}
			}
			d := ts.left(time.Now().Add(time.Second))
			cmd := &hurried{redis.NewCmd(t.Context(), "ping"), d}
			require.NoError(t, rdb.Process(t.Context(), cmd))
			require.Equal(t, i == 0, cmd.timeout == 0, "taken, where no hook stands behind all of ours")
			require.NoError(t, rdb.Ping(t.Context()).Err())
			for _, hook := range hooks {
				require.Equal(t, counter{commands: 2}, *hook)
			}
		}
	}
	require.NotNil(t, two.client(time.Second))
}

// TestTimeouts: a caller who may wait as long as the user's own client does needs no other client.
func TestTimeouts(t *testing.T) {
	for _, usual := range []time.Duration{5 * time.Second, -1} {
		rdb := redis.NewClient(&redis.Options{ReadTimeout: usual})
		ts := newTimeouts(rdb, time.Minute)
		require.Equal(t, 104*time.Millisecond, ts.left(time.Now().Add(-time.Hour)))
		require.Equal(t, usual > 0, ts.left(time.Now().Add(time.Minute)) == 0)
		c := ts.client(640 * time.Millisecond)
		require.Equal(t, 640*time.Millisecond, c.Options().ReadTimeout)
		require.Same(t, c, ts.client(640*time.Millisecond))
		require.NoError(t, rdb.Close())
	}
}

func TestMain(m *testing.M) { redistest.Main(m) }

// refusal is an error reply, like those of go-redis.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// TestClassifyRefusals: a command that a former master refuses did not run, and the refusal is passing.
func TestClassifyRefusals(t *testing.T) {
	for text, passes := range map[string]bool{
		"READONLY You can't write against a read only replica.":                                              true,
		"ERR Attempted to access a non local key in a cluster node script: on @user_script:47.":              true,
		"@user_script: 50: Lua script attempted to access a non local key in a cluster node":                 true, // of 6.0
		"ERR Error running script: @user_script:47: Script attempted to access a non local key in a cluster": true, // of Redis 6
		"OOM command not allowed when used memory > 'maxmemory'.":                                            false,
	} {
		sent, passing := Classify(refusal(text))
		require.False(t, sent, text)
		require.Equal(t, passes, passing, text)
	}
}

// TestFailuresOfAQuestion: that a question got no answer is for all callers until one gets one; a refusal is its caller's.
func TestFailuresOfAQuestion(t *testing.T) {
	var failed atomic.Pointer[error]
	for _, c := range []struct {
		what   string
		err    error
		outage bool
	}{
		{"no answer", io.ErrUnexpectedEOF, true},
		{"an answer", nil, false},
		{"a server that cannot serve", refusal("LOADING Redis is loading the dataset in memory"), true},
		{"an answer", nil, false},
		{"what the caller may not have", refusal("HOLDFAST_PERMITS 3 permits were asked for"), false},
	} {
		a := Attempts{home: &Session{Life: context.Background()}, at: &Server{}}
		a.decide(context.Background(), lua.Reply{}, c.err, &failed)
		require.Equal(t, c.outage, failed.Load() != nil, c.what)
		if c.outage {
			require.True(t, errors.Is(*failed.Load(), c.err), c.what)
		}
	}
}

// TestOwnerIn: an owner that left its lock has the name that it had as the holder. Others have their names in Redis.
func TestOwnerIn(t *testing.T) {
	const client = "0b4ac1d2-6b8e-4f0e-9d0c-3f5a7b1c2d3e"
	for field, owner := range map[string]string{
		client + ":h07":   client + ":h7",
		client + ":h0170": client + ":h170",
		client + ":h7":    client + ":h7",
		client + ":h70":   client + ":h70",
		client + ":h0":    client + ":h0",
		client + ":07":    client + ":07", // Redisson's
		"h07":             "h7",
		"mode":            "mode",
		"":                "",
	} {
		require.Equal(t, owner, OwnerIn(field), field)
	}
	require.True(t, IsOwner(client+":h07"), "it can be forced out")
}

// TestSomebodyElsesWriter: a waiting writer that is not an owner is quoted, and cut.
func TestSomebodyElsesWriter(t *testing.T) {
	said := Blocker{Owner: "x; held by\n" + strings.Repeat("me", 1000), Waits: true}.Text(0)
	require.True(t, strings.HasPrefix(said, `"x; held by\nme`), said)
	require.Less(t, len(said), 500)
}

// TestALeaseForEver: a text says that a lease of more than 99 years has no end. It says of any other lease how much is left.
func TestALeaseForEver(t *testing.T) {
	for left, said := range map[time.Duration]string{
		Remaining(1 << 60):    "held by me, whose lease has no end",
		century - time.Minute: "held by me, whose lease has no end",
		century - year:        "held by me, whose lease has 867240h0m0s left",
		30 * time.Second:      "held by me, whose lease has 30s left",
		-1 * time.Millisecond: "held by me",
	} {
		require.Equal(t, said, Blocker{Owner: "me", Left: left}.Text(0))
	}
}

// TestRefusalIsNoOutage: a missing or wrong password, in whatever words, or a wrong database, or one that is full, is no outage
// and not repeated, and the advice mends it.
func TestRefusalIsNoOutage(t *testing.T) {
	for text, advice := range map[string]string{
		"NOAUTH Authentication required.":                                                 "none was given; set Password",
		"ERR operation not permitted":                                                     "none was given; set Password",
		"WRONGPASS invalid username-password pair":                                        "check Username and Password",
		"ERR invalid password":                                                            "check Username and Password",
		"ERR AUTH failed at the upstream":                                                 "check Username and Password",
		"ERR Client sent AUTH, but no password is set":                                    "leave out Username and Password",
		"OOM command not allowed when used memory > 'maxmemory'.":                         "raise maxmemory",
		"ERR DB index is out of range":                                                    "has no such database; set DB",
		"ERR AUTH <password> called without any password configured for the default user": "leave out Username and Password",
	} {
		err := refusal(text)
		sent, passing := Classify(err)
		require.False(t, sent || passing, text)
		require.False(t, IsOutage(err), text)
		require.ErrorContains(t, Explain(err, "name", ALock, "token"), advice)
		require.ErrorIs(t, Explain(err, "name", ALock, "token"), err)
	}
}

// plainLock is as much of a lock as an undoer needs.
type plainLock struct {
	kind.Lock
	name string
}

func (plainLock) Kind() string   { return "plain" }
func (l plainLock) Name() string { return l.name }
func (l plainLock) Release(owner, publish string) lua.Call {
	return lua.Release.Call(l.name, "channel:"+l.name, owner, publish)
}

// TestAnsweredAfterItWasGivenBack: a caller leaves a request that another caller sends, and that one has to wait for a
// connection. Meanwhile the id is given back twice, and then the request is granted. Its answer has the id given back once
// more, long before no request can be executed any more. Control: without that, it stays.
func TestAnsweredAfterItWasGivenBack(t *testing.T) {
	require.Equal(t, int64(0), answeredLate(t))
	defer defence.Landed.Without(t)()
	require.Equal(t, int64(1), answeredLate(t), "control")
}

// answeredLate returns whether the lock is taken in the end.
func answeredLate(t *testing.T) (taken int64) {
	const owner = "11111111-2222-4333-8444-555555555555:h1"
	rdb, l := redistest.Shared(t).Client(t), plainLock{name: t.Name()}
	to := NewServer(rdb, false, time.Minute)
	to.Clock.attempt = time.Hour // until then it may be executed
	now := rdb.Time(t.Context()).Val().UnixMicro()
	to.Clock.Saw(time.Now(), strconv.FormatInt(now, 10))
	var mu sync.Mutex
	released, sent, connected := 0, make(chan struct{}), make(chan struct{})
	rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		is := func(hash string) bool { return slices.Contains(cmds[0].Args(), any(hash)) }
		if is(lua.Acquire.Hash()) && len(cmds) > 1 {
			close(sent)
			<-connected
		}
		err := send()
		if is(lua.Release.Hash()) && err == nil {
			mu.Lock()
			released++
			mu.Unlock()
		}
		return err
	}))
	for _, s := range []*lua.Script{lua.Acquire, lua.Release} {
		require.NoError(t, rdb.ScriptLoad(t.Context(), s.Text()).Err())
	}
	life, closing := context.WithCancel(t.Context())
	home := &Session{Life: life, Tasks: &task.Group{}, Log: slog.New(slog.DiscardHandler), Retry: time.Minute, Publish: "PUBLISH"}
	acquire := func(ctx context.Context, via lua.Processor, name string) error {
		_, err := lua.Run(ctx, via, lua.Acquire.Call(name, "token:"+name, owner, 600000, 600000, "0", 1, to.Clock.Limit()))
		return err
	}
	group, patient := combine.NewGroup(2), make(chan error, 1)
	others, _ := group.Member(t.Context())
	go func() { patient <- acquire(others, to.Single, l.name+", of another") }()
	ctx, leave := context.WithTimeout(t.Context(), time.Hour)
	go func() {
		<-sent
		leave()
	}()
	mine, _ := group.Member(ctx)
	err := acquire(mine, to.hasty, l.name)
	require.True(t, combine.IsUnanswered(err), err)
	home.Undo(to, l, owner, 0, time.Minute, true)
	home.WhenLanded(to, l, owner, err)
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return released
	}
	require.Eventually(t, func() bool { return count() == 2 }, time.Minute, time.Millisecond)
	close(connected)
	require.NoError(t, <-patient)
	if !defence.Landed.Off() {
		require.Eventually(t, func() bool { return count() == 3 }, time.Minute, time.Millisecond)
	}
	taken = rdb.Exists(t.Context(), l.name).Val()
	require.NoError(t, rdb.Del(t.Context(), l.name, l.name+", of another").Err())
	closing()
	require.NoError(t, home.Tasks.Wait(t.Context()))
	return taken
}
