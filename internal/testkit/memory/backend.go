package memory

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/pubsub"
	"github.com/holdfast-go/holdfast/watchdog"
)

// Mutex is a lock by name in a [Server].
type Mutex struct {
	base   *engine.Lock
	server *Server
}

// NewClient makes a client that has no Redis: what would reach for it fails. So it has no label.
func NewClient(opts *holdfast.Options) (*holdfast.Client, error) {
	var o holdfast.Options
	if opts != nil {
		o = *opts
	}
	o.Label = holdfast.NoLabel
	return holdfast.New(redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("memory: a lock in a map has asked Redis")
		},
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}), &o)
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

// backend has the entries of one lock.
type backend struct {
	server *Server
	base   *engine.Lock
}

var _ engine.CallListener = (*backend)(nil)

// Traits is [engine.Backend.Traits].
func (b *backend) Traits() engine.Traits { return engine.Traits{HandsOff: true, Recalls: true} }

// Check is [engine.Backend.Check].
func (b *backend) Check(cfg *engine.Settings) error {
	if cfg.Replicas.N != 0 {
		return errs.Invalid("Replicas is for locks in Redis; a map has no replicas; leave it out")
	}
	return nil
}

// NewAcquirer is [engine.Backend.NewAcquirer].
func (b *backend) NewAcquirer(owner string) engine.Acquirer { return &entry{backend: b, id: owner} }

// Listen is [engine.Backend.Listen].
func (b *backend) Listen() engine.Listening { return b.server.listen(b.base.Name()) }

// ListenForCalls is [engine.CallListener.ListenForCalls].
func (b *backend) ListenForCalls(l pubsub.Listener) interface{ Close() } {
	return b.server.open(b.base.Name(), b.base.Client.ID(), l)
}

// Renewer is [engine.Backend.Renewer].
func (b *backend) Renewer() engine.Renewer { return renewer{b.server} }

// Silent is [engine.Backend.Silent].
func (b *backend) Silent(remote.Patience) bool { return false }

// Unreached is [engine.Backend.Unreached].
func (b *backend) Unreached() error { return nil }

// NoAnswer is [engine.Backend.NoAnswer].
func (b *backend) NoAnswer() error { return remote.ErrSilent }

// Explain is [engine.Backend.Explain].
func (b *backend) Explain(err error) error { return err }

// entry is what one owner has in the map, or wants to have.
type entry struct {
	engine.CommandState
	backend *backend
	id      string
}

// Entry is [engine.Acquirer.Entry].
func (e *entry) Entry() engine.Entry { return e }

// Live is [engine.Acquirer.Live].
func (e *entry) Live(*watchdog.Lease) {}

// TryAcquire is [engine.Acquirer.TryAcquire].
func (e *entry) TryAcquire(a engine.Attempt) engine.Result {
	if cause := e.backend.base.Over(a.Wait); cause != nil {
		return engine.Result{Left: cause}
	}
	sent := time.Now()
	server, name := e.backend.server, e.backend.base.Name()
	h, last, granted := server.acquire(name, e.id, a.Tokens, a.Want.TTL())
	if !granted {
		server.call(name, h.owner, e.backend.base.Client.ID())
		left := h.ends.Sub(sent)
		return engine.Result{Refused: true, By: remote.Blocker{Owner: h.owner, Left: left}, Again: left}
	}
	return engine.Result{
		Granted: true, Sent: sent, Token: strconv.FormatUint(h.token, 10), Last: strconv.FormatUint(last, 10),
	}
}

// Owner is [engine.Entry.Owner].
func (e *entry) Owner() string { return e.id }

// Set is [engine.Entry.Set].
func (e *entry) Set(_ context.Context, _ remote.SharedBudget, count int, lease time.Duration, _ remote.Replicas,
	_ *atomic.Pointer[error]) remote.Outcome {
	sent := time.Now()
	return outcome(sent, e.backend.server.set(e.backend.base.Name(), e.id, count, lease))
}

// Extend is [engine.Entry.Extend].
func (e *entry) Extend(_ context.Context, lease time.Duration, _ *atomic.Pointer[error]) remote.Outcome {
	sent := time.Now()
	return outcome(sent, e.backend.server.set(e.backend.base.Name(), e.id, 0, lease))
}

// KeepOrRelease is [engine.Entry.KeepOrRelease].
func (e *entry) KeepOrRelease(_ context.Context, _ remote.SharedBudget, lease time.Duration, tokens int) remote.Outcome {
	return e.TrackKeepOrRelease(func() remote.Outcome {
		sent := time.Now()
		first, last, ears, holds := e.backend.server.pass(e.backend.base.Name(), e.id, tokens, lease)
		o := outcome(sent, holds)
		switch {
		case !holds:
		case ears > 0:
			o.Reply = lua.PassReply{Listeners: int64(ears)}.Reply(lua.Denied)
		default:
			kept := lua.PassReply{First: strconv.FormatUint(first, 10), Last: strconv.FormatUint(last, 10)}
			o.Reply = kept.Reply(lua.Done)
		}
		return o
	})
}

// Release is [engine.Entry.Release].
func (e *entry) Release(_ context.Context, _ remote.SharedBudget, rest func() time.Duration) remote.Outcome {
	sent := time.Now()
	return outcome(sent, e.backend.server.release(e.backend.base.Name(), e.id, rest()))
}

// LossCause is [engine.Entry.LossCause].
func (e *entry) LossCause() error { return nil }

// UndoLater is [engine.Entry.UndoLater]. There are no stragglers.
func (e *entry) UndoLater(time.Duration, bool) {
	e.backend.server.release(e.backend.base.Name(), e.id, 0)
}

// UndoIfNeeded is [engine.Entry.UndoIfNeeded].
func (e *entry) UndoIfNeeded(rest func() time.Duration, _ time.Duration) {
	if undo, _ := e.TakeUndo(); undo {
		e.backend.server.release(e.backend.base.Name(), e.id, rest())
	}
}

// outcome is that of an operation that finds the owner's hold, or does not.
func outcome(sent time.Time, holds bool) remote.Outcome {
	if !holds {
		return remote.Outcome{Sent: sent, Reply: lua.Reply{Status: lua.Gone}}
	}
	return remote.Outcome{Sent: sent, Reply: lua.Reply{Status: lua.Done}}
}

// renewer renews what is held at a server.
type renewer struct{ server *Server }

// Renew is [engine.Renewer.Renew].
func (r renewer) Renew(_ context.Context, due []watchdog.Renewal) {
	for i, d := range due {
		e := d.Owner.(*engine.ServerLease).Entry.(*entry)
		switch {
		case r.server.set(e.backend.base.Name(), e.id, 0, d.Length):
			due[i].Verdict = watchdog.Renewed
		case !e.MayBeReleased():
			due[i].Verdict = watchdog.Gone
		}
	}
}

// Lane is [engine.Renewer.Lane].
func (r renewer) Lane() func(watchdog.Owner) any { return nil }

// ReleaseAll is [engine.Renewer.ReleaseAll].
func (r renewer) ReleaseAll(owners []watchdog.Owner) {
	for _, o := range owners {
		_ = o.(*engine.ServerLease).ReleaseAtClose() // that it was lost has been said before
	}
}
