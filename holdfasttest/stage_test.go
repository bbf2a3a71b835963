package holdfasttest_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rwlock"
)

// stage is a server on which a scenario is played: the double, or a real one with a proxy in front.
type stage interface {
	client(opts *holdfast.Options) *holdfast.Client
	direct() redis.UniversalClient // past faults
	inject(f holdfasttest.Fault) (stop func())
	outOfMemory() (restore func())
	silence() (restore func())
	moveClock(d time.Duration)
	lose(name string)
	occupy(make maker, lease time.Duration) (release func()) // the name of the stories
	queue(name string, waiters ...func()) (wait func())
}

// unhurried is what a client waits for a reply. It is short for scenarios of silence only.
func unhurried(d time.Duration) func(*redis.Options) {
	return func(o *redis.Options) { o.ReadTimeout, o.DialerRetries = d, 1 }
}

// maker makes a lock of some kind.
type maker = func(c *holdfast.Client, name string) holdfast.Locker

// double is the one that is tested.
type double struct {
	*holdfasttest.Server
	t *testing.T
}

func newDouble(t *testing.T, timeout time.Duration) stage {
	return double{holdfasttest.New(t, holdfasttest.ConfigureRedis(unhurried(timeout)), holdfasttest.AllowHeld()), t}
}

func (d double) client(opts *holdfast.Options) *holdfast.Client { return d.Client(opts) }
func (d double) direct() redis.UniversalClient                  { return d.Redis() }
func (d double) silence() func()                                { return d.Silence() }
func (d double) moveClock(by time.Duration)                     { d.MoveClock(by) }
func (d double) lose(name string)                               { d.Lose(name) }
func (d double) inject(f holdfasttest.Fault) func()             { return d.Inject(f).Stop }
func (d double) occupy(_ maker, l time.Duration) func()         { return d.Occupy(name, l) }
func (d double) queue(name string, w ...func()) func()          { return d.Queue(name, w...) }

func (d double) outOfMemory() func() {
	return d.Inject(holdfasttest.Fault{Op: holdfasttest.Lock, Times: -1, Err: holdfasttest.Answer(
		"OOM command not allowed when used memory > 'maxmemory'.")}).Stop
}

// real is a server process.
type real struct {
	t      *testing.T
	srv    *redistest.Server
	proxy  *faultproxy.Proxy
	past   *redis.Client
	change func(*redis.Options)
}

func newReal(t *testing.T, timeout time.Duration) stage {
	srv := redistest.Start(t, redistest.Clock())
	for _, text := range holdfasttest.Scripts() { // else a fault would hit the word that one is not known
		srv.Command(t, "SCRIPT", "LOAD", text)
	}
	return &real{t, srv, faultproxy.New(t, srv.Addr()), srv.Client(t), unhurried(timeout)}
}

func (r *real) client(opts *holdfast.Options) *holdfast.Client {
	c, err := holdfast.New(redistest.NewClient(r.t, r.proxy.Addr(), r.change), opts)
	require.NoError(r.t, err)
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

func (r *real) direct() redis.UniversalClient { return r.past }

// inject has the proxy do what the fault says. The table that maps commands to faults is the double's; TestOps checks it.
func (r *real) inject(f holdfasttest.Fault) func() {
	match := func(args []string) bool { return holdfasttest.Fits(f, args) }
	nth := 1
	if f.Times < 0 {
		nth = 0
	}
	var rule *faultproxy.Rule
	switch {
	case f.Delay == holdfasttest.UntilStopped && f.After:
		rule = r.proxy.On(match, nth, faultproxy.HoldReply)
	case f.Delay != 0 || f.Err != nil || f.Skip != 0:
		r.t.Fatalf("the proxy has no such fault: %+v", f)
	case f.After:
		rule = r.proxy.On(match, nth, faultproxy.DropReply)
	default:
		rule = r.proxy.On(match, nth, faultproxy.DropRequest)
	}
	return rule.Clear
}

func (r *real) outOfMemory() func() {
	r.srv.Command(r.t, "CONFIG", "SET", "maxmemory", "1")
	return func() { r.srv.Command(r.t, "CONFIG", "SET", "maxmemory", "0") }
}

func (r *real) silence() func() {
	r.srv.Pause()
	return r.srv.Resume
}

func (r *real) moveClock(d time.Duration) { r.srv.MoveClock(r.t, d) }

// lose ends the hold as an operator would. The client learns of it at its next renewal.
func (r *real) lose(name string) {
	i, err := inspect.New(r.past, nil)
	require.NoError(r.t, err)
	l, err := i.Lock(r.t.Context(), name)
	require.NoError(r.t, err)
	for _, h := range l.Holders {
		_, err = i.End(r.t.Context(), name, inspect.Grant{Owner: h.Raw})
		require.NoError(r.t, err)
	}
}

// occupy has a client of its own take the lock, past the proxy.
func (r *real) occupy(make maker, lease time.Duration) func() {
	c, err := holdfast.New(r.srv.Client(r.t), nil)
	require.NoError(r.t, err)
	redistest.CloseAtEnd(r.t, c)
	h, err := make(c, name).Lock(r.t.Context(), holdfast.Lease(cmp.Or(lease, 24*time.Hour)), holdfast.NoRenewal())
	require.NoError(r.t, err)
	return func() { _ = h.Unlock(context.Background()) } // the lease may have ended
}

func (r *real) queue(name string, waiters ...func()) func() {
	i, err := inspect.New(r.past, nil)
	require.NoError(r.t, err)
	done := make(chan struct{}, len(waiters))
	for n, f := range waiters {
		go func() { f(); done <- struct{}{} }()
		eventually(r.t, "a waiter has its place", func() bool {
			l, err := i.Lock(r.t.Context(), name)
			return err == nil && l.Waiters == n+1
		})
	}
	return func() {
		for range waiters {
			<-done
		}
	}
}

// eventually waits for a condition, in a bubble too.
func eventually(t *testing.T, what string, ok func() bool) {
	require.True(t, sooner(ok), what)
}

func sooner(ok func() bool) bool {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); <-tick.C {
		if ok() {
			return true
		}
	}
	return false
}

// of is what of a call's error.
func of[T any](_ T, err error) string { return what(err) }

// what is all that a caller can tell of an error. (Which one a caller gets that left before an answer is a matter of time.)
func what(err error) string {
	if err == nil {
		return "nil"
	}
	var all []string
	for name, is := range map[string]error{
		"NotAcquired": holdfast.ErrNotAcquired, "Unavailable": holdfast.ErrUnavailable, "Lost": holdfast.ErrLost,
		"Released": holdfast.ErrReleased, "Closed": holdfast.ErrClosed, "Uncertain": holdfast.ErrUncertain,
		"NotReplicated": holdfast.ErrNotReplicated, "Invalid": holdfast.ErrInvalid, "Upgrade": rwlock.ErrUpgrade,
		"NoLeader": election.ErrNoLeader, "Stale": fence.ErrStale, "canceled": context.Canceled,
		"deadline": context.DeadlineExceeded, "somebody else's": inspect.ErrStale, "nobody's": inspect.ErrFree,
	} {
		timed := is == holdfast.ErrNotAcquired || is == holdfast.ErrUnavailable //nolint:errorlint // exactly these
		if errors.Is(err, is) && !(timed && errors.Is(err, context.Canceled)) {
			all = append(all, name)
		}
	}
	var answer redis.Error
	if errors.As(err, &answer) {
		code, _, _ := strings.Cut(answer.Error(), " ")
		all = append(all, "answer "+code)
	}
	var op *holdfast.Error
	if errors.As(err, &op) {
		all = append(all, fmt.Sprintf("%s %s", op.Kind, op.Op))
	}
	return join(all)
}

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // stories on real servers mostly wait
	redistest.Main(m)
}
