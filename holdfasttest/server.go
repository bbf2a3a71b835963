package holdfasttest

import (
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/engine"
)

// Server is an emulated Redis in memory, with clients that lock there. It is made for one test and
// ends with it. Any goroutine may call its methods. If the Server was made in a bubble of
// testing/synctest, only goroutines of that bubble may.
type Server struct {
	tb     testing.TB
	cfg    config
	bubble bool // it was made in one
	wires  *wires
	rdb    *redis.Client      // what Redis returns
	past   *redis.Client      // reaches the server past silence and faults
	look   *inspect.Inspector // by past
	watch  *watch
	queues sync.WaitGroup // goroutines of Queue

	mu        sync.Mutex // guards the rest
	clients   []*holdfast.Client
	strangers []*process      // who occupy
	pools     []*redis.Client // one for each of them all: processes share no connections
}

// Option changes what [New] makes.
type Option func(*config)

type config struct {
	held  bool          // may be held at the end
	stuck time.Duration // 0: the default
	redis []func(*redis.Options)
}

// AllowHeld lets a test end while locks are held, or while calls wait for locks. Without it the
// test then fails.
func AllowHeld() Option { return func(c *config) { c.held = true } }

// StuckAfter is how long calls may wait for each other before the test fails and the calls return:
// see [New]. Negative: for ever.
func StuckAfter(d time.Duration) Option { return func(c *config) { c.stuck = d } }

// ConfigureRedis changes the options of all go-redis clients of the server, such as the ReadTimeout
// that the service has in production. Addr and Dialer are the server's own.
func ConfigureRedis(change func(*redis.Options)) Option {
	return func(c *config) { c.redis = append(c.redis, change) }
}

// New makes a server, and ends it with the test. A test in a bubble of testing/synctest calls New
// inside of the bubble, with the bubble's testing.T: a server from outside of it fails there.
//
// At the end of the test New's cleanup closes all clients of the server. It fails the test for each
// lock that is still held then, and for each call that still waits, and names the line of the Lock
// call; see [AllowHeld]. Cleanups and defers that the test adds after New run before that. Servers
// of one test, such as those of a redlock, end together, when the first of them would: the cleanup
// closes all their clients before any of them is gone.
//
// While the test runs, calls that wait in vain fail it. The failure names who waits for whom, and
// where each of them locked. The server then closes all clients, so that the calls return with
// holdfast.ErrClosed. If another client closes a moment before its own, a call may return with the
// lock that that client gave back. Only calls count whose wait has no limit of its own, by Wait or by a
// context.
//
//   - In a bubble a call counts if it has waited for an hour of the bubble's time, which takes no
//     time: no timer has let it in until then. In an election a candidate does nothing but wait
//     while another one leads, so there a call counts only if it waits for itself, as below.
//   - Outside of a bubble a call counts if it has waited for ten seconds for a lock that its own
//     goroutine has taken, or for one of a goroutine that waits for it in the same way. In the most
//     common case, a caller that has the lock already calls Lock under a plain context. The owner
//     of a lock is a context, not a goroutine. So a goroutine that has passed its hold to another,
//     and waits until that one unlocks, looks the same.
//
// [StuckAfter] replaces both durations.
func New(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	s := &Server{tb: tb, wires: &wires{server: miniredis.NewMiniRedis(), done: make(chan struct{})}}
	for _, o := range opts {
		o(&s.cfg)
	}
	_, s.bubble = goroutine()
	s.wires.stray = sync.OnceValue(func() error { tb.Error(errStray); return errStray })
	s.wires.bubble = s.bubble
	s.watch = newWatch(s)
	s.wires.plain = s.watch.plainly
	s.wires.server.ClockTTL(true)
	if err := s.wires.prepare(); err != nil {
		tb.Fatal("holdfasttest: ", err)
	}
	s.rdb = redis.NewClient(s.RedisOptions())
	past := s.RedisOptions()
	past.Dialer = s.wires.direct
	s.past = redis.NewClient(past)
	look, err := inspect.New(s.past, nil)
	if err != nil {
		tb.Fatal("holdfasttest:", err)
	}
	s.look = look
	s.ends()
	return s
}

// RedisOptions are the options of a go-redis client of this server, for code that makes its own.
// The caller closes such a client before the test ends.
//
// In a bubble two of them matter. The dialer makes no socket, because time stands still in a bubble
// while anybody reads from one. The pool is large, because go-redis keeps a timer for all who wait
// for a connection, and a timer belongs to one bubble.
func (s *Server) RedisOptions() *redis.Options {
	o := &redis.Options{
		DialerRetries: 1, DisableIdentity: true, PoolSize: 1 << 14, ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	for _, change := range s.cfg.redis {
		change(o)
	}
	o.Addr, o.Dialer = address.String(), s.wires.dial
	return o
}

// Redis returns a client of the server, for the code under test, or to look at the server. It is
// closed at the end of the test.
func (s *Server) Redis() redis.UniversalClient { return s.rdb }

// silent is the logger of clients that were given none.
var silent = slog.New(slog.DiscardHandler)

// Client makes a client that locks on this server, as a process of its own does. A test makes one
// for each process that it plays. Nil options mean the defaults. The client is closed at the end of
// the test. Bad options fail the test. A client without a Logger is silent, because the test itself
// causes what it would log. A client without a Label has none, because the default one differs in
// each run.
func (s *Server) Client(opts *holdfast.Options) *holdfast.Client {
	s.tb.Helper()
	if s.wires.isStray() {
		s.tb.Fatal(errStray)
	}
	var o holdfast.Options
	if opts != nil {
		o = *opts
	}
	if o.Logger == nil {
		o.Logger = silent
	}
	if o.Label == "" {
		o.Label = holdfast.NoLabel
	}
	o.Observer = event.Join(s.watch.observer(), o.Observer)
	rdb := redis.NewClient(s.RedisOptions())
	c, err := holdfast.New(rdb, &o)
	if err != nil {
		_ = rdb.Close()
		s.tb.Fatal("holdfasttest: ", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, c)
	s.pools = append(s.pools, rdb)
	return c
}

// renewNow has all clients renew what they hold of a name, so that they learn at once that it is
// lost.
func (s *Server) renewNow(name string) {
	for _, c := range s.all() {
		(*engine.Client)(c).RenewNow(name)
	}
}

func (s *Server) all() []*holdfast.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.clients)
}

// Silence makes the server answer nobody, as if it was stopped, or as if the network lost
// everything. The server executes what clients send meanwhile when the test calls restore; a second
// call does nothing. Occupy, Lose and the other methods of the Server still work. The end of the
// test restores the server, too.
func (s *Server) Silence() (restore func()) { return s.wires.beginSilence() }

// MoveClock moves the server's clock by d, forwards or backwards. The clients' clocks stay as they
// are. Leases end by the server's clock. Time goes on from there.
func (s *Server) MoveClock(d time.Duration) { s.wires.move(d) }

// Fail makes the next n commands about a name fail, as [Fault] does with Err. With a nil err the
// commands run, and their replies are lost. A negative n means all commands from now on, and 0
// none. A client repeats a failed command for as long as its RetryBudget allows, on a real server
// too. So the caller does not notice a single failure, unless it is an [Answer].
func (s *Server) Fail(name string, n int, err error) {
	s.tb.Helper()
	if n != 0 {
		s.Inject(Fault{Name: name, Times: n, After: err == nil, Err: err})
	}
}

// Inject adds a fault that waits for its command. A fault that contradicts itself fails the test.
func (s *Server) Inject(f Fault) *Injected {
	s.tb.Helper()
	if err := f.check(); err != nil {
		s.tb.Fatal(err)
	}
	return s.wires.faults.add(f)
}
