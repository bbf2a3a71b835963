// Package kindtest states once what every kind of lock must do, and checks it for each. A new kind describes itself as a [Kind]
// and starts here. What only one kind promises (an order, keys, a majority), its own package tests.
package kindtest

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

const patience = Patience

// Kind is one kind of lock, on servers that the suite has for itself.
type Kind struct {
	// Name is the kind as errors have it.
	Name string
	// Members is the kind as events have it, where it is another one.
	Members string
	// Lease is short, for tests that wait for its end, and long enough to be renewed in time on a busy machine.
	Lease time.Duration
	// Once says that each acquisition is an owner: nothing is re-entered, and a release is at once, without HoldAtLeast.
	Once bool
	// Client makes one more participant. It is closed at the end of the test.
	Client func(t *testing.T, opts *holdfast.Options) Client
	// Waiters is how many clients or owners the servers have that wait for a lock. Waiters of one client may count as one.
	Waiters func(t *testing.T, name string) int
	// Places is how many have places in a queue at the servers, whoever may have left meanwhile.
	Places func(t *testing.T, name string) int
	// Queues says that those who have places are granted the lock in their order.
	Queues bool
	// Lose gives a lock to a stranger, behind its holder's back. The stranger never gives it up.
	Lose func(t *testing.T, name string)
	// Memory says that there is no Redis: the kind has no scripts.
	Memory bool
	// Sent is how many commands of locks the servers have run.
	Sent func(t *testing.T) int64

	// Of kinds on real servers, see On.
	direct []*redis.Client
	far    func(t *testing.T, opts *holdfast.Options, read time.Duration, hooks ...redis.Hook) (Client, network)
	key    func(name string) string
}

// Client is one participant: what is a process elsewhere.
type Client struct {
	ID    string
	New   func(name string, opts ...holdfast.Option) holdfast.Locker
	State func(ctx context.Context, name string) (holdfast.State, error)
	Close func(ctx context.Context) error
	// Force is ForceUnlock; nil if the kind has none.
	Force func(ctx context.Context, name string) (bool, error)
}

// Run checks all promises for a kind.
func Run(t *testing.T, k Kind) {
	for _, p := range []struct {
		name  string
		test  func(*subject)
		again bool // it is about what a kind of single acquisitions does not have
		waits bool // it is slow because it waits for a lease to end, and not because it works
	}{
		{"a grant has an owner, a token and a deadline", aGrant, false, false},
		{"one client excludes the others", exclusion, false, false},
		{"never are two inside, and tokens grow", crowd, false, true},
		{"the owner re-enters by the context of its hold", reentry, true, false},
		{"a re-entry that has no time is not refused", hastyReentry, true, false},
		{"a context with a new owner does not re-enter", newOwner, true, false},
		{"the goroutines of an owner are inside together", oneOwner, true, false},
		{"an owner holds several names", severalNames, false, false},
		{"a refusal says who holds the lock", refusal, false, false},
		{"Wait bounds the wait and not the hold", wait, false, false},
		{"the end of the context ends the wait", endedWait, false, false},
		{"a waiter that gives up leaves nothing", giveUp, false, false},
		{"the unlock wakes a waiter of another client", wakeup, false, false},
		{"the unlock wakes a waiter of the same client", wakeupWithin, false, false},
		{"the lease of a dead holder ends", deadHolder, false, true},
		{"a hold is renewed", renewal, false, true},
		{"a hold without renewal ends with its lease", noRenewal, false, true},
		{"Extend lengthens the lease", extend, false, false},
		{"a lost hold ends", loss, false, true},
		{"Unlock finds out that the hold is lost", lossAtUnlock, false, false},
		{"Extend finds out that the hold is lost", lossAtExtend, false, false},
		{"a re-entry finds out that the hold is lost", lossAtReentry, true, false},
		{"a second Unlock does no harm", secondUnlock, false, false},
		{"Unlock is sent under a cancelled context", cancelledUnlock, false, false},
		{"the end of a hold is no new grant", underEndedHold, false, false},
		{"HoldAtLeast leaves the lock taken", holdAtLeast, true, false},
		{"HoldAtLeast is given up by UnlockNow, and if the work fails", holdAtLeastFails, true, false},
		{"HoldAtLeast ends", holdAtLeastEnds, true, true},
		{"HoldAtLeast ends, and whoever waits has the lock soon", holdAtLeastSoon, true, true},
		{"HoldAtLeast is also for who was woken", holdAtLeastCalled, true, false},
		{"ForceUnlock frees it, and all are told", forced, true, false},
		{"Do unlocks, however its function ends", do, false, false},
		{"SyncLocker excludes and panics", syncLocker, false, false},
		{"Close releases what is held and ends waiters", closing, false, false},
		{"a closed client refuses", closed, false, false},
		{"an observer hears of each wait, grant and end", observed, false, true},
		{"an observer hears of losses", observedLoss, false, true},
		{"bad input is refused before anything is sent", badInput, false, false},
		{"operations without a context", nilContexts, false, false},
		{tenThousand, impatience, false, false},
	} {
		if k.Once && p.again || p.name == tenThousand && k.far == nil {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			if p.waits {
				t.Parallel() // and so after those that demand that nothing is sent
			}
			p.test(newSubject(t, k))
		})
	}
	if k.far != nil {
		k.meet(t, hazards())
	}
}

// Bursts checks what comes of callers who do not stay, for a kind that does not run all of the suite.
func Bursts(t *testing.T, k Kind) { k.meet(t, bursts) }

// meet has hazards happen.
func (k Kind) meet(t *testing.T, list []hazard) {
	for _, h := range list {
		if k.Once && h.again {
			continue
		}
		t.Run(h.name, func(t *testing.T) {
			if !h.alone {
				t.Parallel()
			}
			require.NoError(t, h.harm(newSubject(t, k)))
		})
	}
}

func newSubject(t *testing.T, k Kind) *subject {
	s := &subject{T: t, kind: k, name: UniqueName(t)}
	s.witnessed()
	return s
}

// subject is a kind in one test, with a name for a lock that no other test uses.
type subject struct {
	*testing.T
	kind Kind
	name string
	// of all clients that a test does not have observed by itself
	witness Witness
	// Of a control: a hazard is to do harm, by a switch, or by hooks that break a script.
	control bool
	hooks   []redis.Hook
}

// client makes one more participant, with the defaults.
func (s *subject) client() Client { return s.kind.Client(s.T, nil) }

// locker makes the lock for a new participant.
func (s *subject) locker(opts ...holdfast.Option) holdfast.Locker {
	return s.client().New(s.name, opts...)
}

// lock takes a lock, which is free or about to be.
func (s *subject) lock(ctx context.Context, l holdfast.Locker, opts ...holdfast.Option) *holdfast.Hold {
	return Take(ctx, s, l.Lock, opts...)
}

// reenter takes a lock again under the context of a hold; nil of a kind of single acquisitions.
func (s *subject) reenter(h *holdfast.Hold, l holdfast.Locker) *holdfast.Hold {
	if s.kind.Once {
		return nil
	}
	return s.lock(h.Context(), l)
}

// leave gives back what reenter took.
func (s *subject) leave(h *holdfast.Hold) {
	if h != nil {
		s.unlock(h)
	}
}

// unlock gives a hold back.
func (s *subject) unlock(h *holdfast.Hold) { Unlock(s, h) }

// waiting takes a lock in a goroutine. It returns when the servers know of the waiter.
func (s *subject) waiting(ctx context.Context, l holdfast.Locker, opts ...holdfast.Option) *Pending {
	p := Begin(ctx, s, l.Lock, opts...)
	s.eventually("somebody waits", func() bool { return s.kind.Waiters(s.T, l.Name()) > 0 })
	return p
}

// state is a lock as the servers see it.
func (s *subject) state(c Client) holdfast.State {
	state, err := c.State(s.Context(), s.name)
	require.NoError(s, err)
	return state
}

// free demands that nobody holds the lock, and nobody waits for it.
func (s *subject) free(c Client) {
	state := s.state(c)
	require.Empty(s, state.Owner)
	require.Zero(s, state.Count)
	require.LessOrEqual(s, state.Waiters, 0)
}

// held demands that the owner of a hold has the lock, with a count.
func (s *subject) held(c Client, h *holdfast.Hold, count int) {
	state := s.state(c)
	require.Equal(s, h.Owner(), state.Owner)
	require.Equal(s, count, state.Count)
	require.Equal(s, h.Token(), state.Token)
}

// eventually waits for a condition.
func (s *subject) eventually(what string, cond func() bool) { Eventually(s, what, cond) }

// Servers are real ones, and how locks of a kind are made on them. A participant has a client for each server.
type Servers struct {
	All   []*redistest.Server
	New   func(c []*holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker
	State func(ctx context.Context, c []*holdfast.Client, name string) (holdfast.State, error)
	// Force is ForceUnlock; nil if the kind has none.
	Force func(ctx context.Context, c []*holdfast.Client, name string) (bool, error)
	// Waiters is how many a server knows that wait; nil if this kind keeps no queue, so that they listen.
	Waiters func(ctx context.Context, rdb *redis.Client, name string) int64
	// Places is how many of them have places; nil: all.
	Places func(ctx context.Context, rdb *redis.Client, name string) int64
	// Fields are those of the lock's hash by which the stranger has it. Where there is no hash, Give grants it otherwise.
	Fields []any
	// Key is where a server has that a lock is taken, if it is not its name.
	Key  func(name string) string
	Give func(ctx context.Context, rdb *redis.Client, name string) error
}

// Stranger is the id of a client that no test has.
const Stranger = "110cc421-94e6-4f2e-9a4b-2f6b5d8a7c11"

// Listeners is how many connections hear a channel: the Waiters of a kind that keeps no queue.
func Listeners(ctx context.Context, rdb redis.UniversalClient, channel string) int64 {
	return rdb.PubSubNumSub(ctx, channel).Val()[channel]
}

// Mutex is a lock of one client.
type Mutex interface {
	holdfast.Locker
	State(ctx context.Context) (holdfast.State, error)
	ForceUnlock(ctx context.Context) (bool, error)
}

// Single is one server, and locks of a kind that a single client makes there.
func Single(t *testing.T, mutex func(c *holdfast.Client, name string, opts ...holdfast.Option) Mutex) Servers {
	return Servers{
		All: []*redistest.Server{redistest.Start(t)},
		New: func(c []*holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
			return mutex(c[0], name, opts...)
		},
		State: func(ctx context.Context, c []*holdfast.Client, name string) (holdfast.State, error) {
			return mutex(c[0], name).State(ctx)
		},
		Force: func(ctx context.Context, c []*holdfast.Client, name string) (bool, error) {
			return mutex(c[0], name).ForceUnlock(ctx)
		},
		Fields: []any{Stranger + ":47", 1},
	}
}

// On completes a kind by what all kinds on real servers have in common.
func (k Kind) On(t *testing.T, s Servers) Kind {
	for _, srv := range s.All {
		k.direct = append(k.direct, srv.Client(t))
	}
	k.Client = func(t *testing.T, opts *holdfast.Options) Client {
		rdbs := make([]*redis.Client, len(s.All))
		for i, srv := range s.All {
			rdbs[i] = srv.Client(t)
		}
		return s.client(t, opts, rdbs)
	}
	k.key = func(name string) string { return name }
	if s.Key != nil {
		k.key = s.Key
	}
	k.far = func(t *testing.T, opts *holdfast.Options, read time.Duration, hooks ...redis.Hook) (Client, network) {
		rdbs, n := make([]*redis.Client, len(s.All)), make(network, len(s.All))
		for i, srv := range s.All {
			n[i] = faultproxy.New(t, srv.Addr())
			rdbs[i] = Hooked(redistest.NewClient(t, n[i].Addr(), func(o *redis.Options) {
				o.ReadTimeout, o.DialerRetries = read, 1
				o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := new(net.Dialer).DialContext(ctx, network, addr)
					if err != nil {
						return nil, err
					}
					return &calm{c.(*net.TCPConn), n[i], read}, nil
				}
			}), hooks...)
		}
		return s.client(t, opts, rdbs), n
	}
	k.Sent = func(t *testing.T) (n int64) {
		for _, srv := range s.All {
			calls := srv.CommandCalls(t)
			n += calls["eval"] + calls["evalsha"] + calls["subscribe"]
		}
		return n
	}
	if s.Waiters == nil {
		s.Waiters = func(ctx context.Context, rdb *redis.Client, name string) int64 {
			return Listeners(ctx, rdb, "redisson_lock__channel:{"+name+"}")
		}
	}
	if s.Places == nil {
		s.Places = s.Waiters
	}
	everywhere := func(count func(context.Context, *redis.Client, string) int64) func(*testing.T, string) int {
		return func(t *testing.T, name string) (n int) {
			for _, rdb := range k.direct {
				n += int(count(t.Context(), rdb, name))
			}
			return n
		}
	}
	k.Waiters, k.Places = everywhere(s.Waiters), everywhere(s.Places)
	k.Lose = func(t *testing.T, name string) {
		for _, rdb := range k.direct {
			if s.Give != nil {
				require.NoError(t, s.Give(t.Context(), rdb, name))
				continue
			}
			require.NoError(t, rdb.Del(t.Context(), name).Err())
			require.NoError(t, rdb.HSet(t.Context(), name, s.Fields...).Err())
			require.NoError(t, rdb.PExpire(t.Context(), name, time.Hour).Err())
		}
	}
	return k
}

// calm is a connection as hasty as its client only during a fault; before, answers may take as long as on a busy machine.
type calm struct {
	*net.TCPConn // go-redis looks at what is below it
	proxy        *faultproxy.Proxy
	read         time.Duration
}

// SetReadDeadline is what go-redis calls before it waits for an answer.
func (c *calm) SetReadDeadline(t time.Time) error {
	if !t.IsZero() && time.Until(t) <= c.read && c.proxy.Calm() {
		t = t.Add(patience)
	}
	return c.TCPConn.SetReadDeadline(t)
}

func (s Servers) client(t *testing.T, opts *holdfast.Options, rdbs []*redis.Client) Client {
	var clients []*holdfast.Client
	for _, rdb := range rdbs {
		c, err := holdfast.New(rdb, Unlabelled(opts))
		require.NoError(t, err)
		clients = append(clients, c)
	}
	c := Client{
		ID:    clients[0].ID(), // to which all holds belong
		New:   func(name string, opts ...holdfast.Option) holdfast.Locker { return s.New(clients, name, opts...) },
		State: func(ctx context.Context, name string) (holdfast.State, error) { return s.State(ctx, clients, name) },
		Close: func(ctx context.Context) (err error) {
			for _, c := range clients {
				err = errors.Join(err, c.Close(ctx))
			}
			return err
		},
	}
	if s.Force != nil {
		c.Force = func(ctx context.Context, name string) (bool, error) { return s.Force(ctx, clients, name) }
	}
	redistest.CloseAtEnd(t, closer(c.Close))
	return c
}

type closer func(ctx context.Context) error

// Close is the function.
func (c closer) Close(ctx context.Context) error { return c(ctx) }
