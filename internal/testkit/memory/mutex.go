package memory

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/kind"
)

// Mutex is a lock by name in a [Server].
type Mutex struct {
	base   *engine.Lock
	server *Server
}

var _ holdfast.Locker = (*Mutex)(nil)

// NewClient makes a client that has no Redis: what would reach for it fails.
func NewClient(opts *holdfast.Options) (*holdfast.Client, error) {
	return holdfast.New(redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("memory: a lock in a map has asked Redis")
		},
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}), opts)
}

// New makes the lock called name on a client.
func New(c *holdfast.Client, s *Server, name string, opts ...holdfast.Option) *Mutex {
	m := &Mutex{engine.NewBare((*engine.Client)(c), wire{name: name}, opts), s}
	if m.base.Err == nil {
		m.base.Use(&backend{server: s, base: m.base})
	}
	return m
}

// wire names a lock. Nothing of it is sent.
type wire struct {
	kind.Lock
	name string
}

// Kind is part of kind.Lock.
func (w wire) Kind() string { return "memory" }

// Name is part of kind.Lock.
func (w wire) Name() string { return w.name }

// Channel is part of kind.Lock.
func (w wire) Channel() string { return w.name }

// Name is the name of the lock.
func (m *Mutex) Name() string { return m.base.Name() }

// Lock is as every Locker has it.
func (m *Mutex) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	h, err := m.base.Lock(ctx, opts...)
	return (*holdfast.Hold)(h), m.fail("lock", err)
}

// TryLock is as every Locker has it.
func (m *Mutex) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	h, err := m.base.TryLock(ctx, opts...)
	return (*holdfast.Hold)(h), m.fail("try", err)
}

// State is who has the lock.
func (m *Mutex) State(ctx context.Context) (holdfast.State, error) {
	if err := m.base.MayAsk(ctx); err != nil {
		return holdfast.State{}, m.fail("state", err)
	}
	h, last := m.server.state(m.Name())
	owner := strings.Replace(h.owner, ":h0", ":h", 1) // has left it for the rest of its time
	s := holdfast.State{Owner: owner, Count: h.count, Token: last, Waiters: -1}
	if h.owner != "" {
		s.Remaining, s.Token = time.Until(h.ends), h.token
	}
	return s, nil
}

func (m *Mutex) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &holdfast.Error{Op: op, Kind: m.base.Key.Kind, Name: m.Name(), Err: err}
}
