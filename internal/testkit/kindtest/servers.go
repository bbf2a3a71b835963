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

// Servers are real ones, and how locks of a kind are made on them. A participant has a client for
// each server.
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
	// Fields are those of the lock's hash by which the stranger has it. Give has it granted by other
	// means, where there is no hash.
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

// calm is a connection that is as hasty as its client only during a fault. Before that an answer takes as
// long as a busy machine may need.
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
		c, err := holdfast.New(rdb, opts)
		require.NoError(t, err)
		clients = append(clients, c)
	}
	c := Client{
		ID: clients[0].ID(), // to which all holds belong
		New: func(name string, opts ...holdfast.Option) holdfast.Locker {
			return s.New(clients, name, opts...)
		},
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
