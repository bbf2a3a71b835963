// Package controls_test shows of each defence of the library that it is one: the fault that it is there for is made, once with
// the defence and once with it switched off. With it the promise is kept. Without it, it is broken, or the fault was none.
//
// Here are those that have no control beside their package. internal/testkit/overlay says where each one is.
package controls_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const (
	patience = 20 * time.Second
	// never is how long a test waits for what is not to come, or only when the lease of 30 s ends.
	never = 3 * time.Second
	name  = "orders:{42}"
)

// proof is one row of the table: a defence, and the fault that it is against.
type proof struct {
	name, fault string
	off         *defence.Switch // what switches it off: a switch of the library, or
	mutant      redis.Hook      // another script in place of its own
	// try makes the fault, and returns how the promise was broken, or "".
	try func(l *lab) (broken string)
}

// defences are listed in the files beside this one, by what they guard.
func defences() []proof {
	return slices.Concat(retryDefences, undoDefences, leaseDefences, handOffDefences, fairDefences)
}

// TestControls must not run beside other tests: switches are global to the process.
func TestControls(t *testing.T) {
	for _, d := range defences() {
		t.Run(d.name, func(t *testing.T) {
			require.Empty(t, d.try(newLab(t, nil)), "with the defence, and this fault: %s", d.fault)
			if d.off != nil {
				defer d.off.Without(t)()
			}
			l := newLab(t, d.mutant)
			l.off = true
			require.NotEmpty(t, d.try(l), "without the defence the promise is kept too: this fault is none: %s", d.fault)
		})
	}
}

// lab is a server of its own, with a proxy before it and a client that goes around it.
type lab struct {
	*testing.T
	srv    *redistest.Server
	proxy  *faultproxy.Proxy
	direct *redis.Client
	hook   redis.Hook
	warmed int  // requests that warm made
	off    bool // without the defence
}

func newLab(t *testing.T, hook redis.Hook) *lab {
	srv := redistest.Start(t)
	return &lab{T: t, srv: srv, proxy: faultproxy.New(t, srv.Addr()), direct: srv.Client(t), hook: hook}
}

// client makes a client of the library behind the proxy. go-redis has its own repeats on, as users have.
func (l *lab) client(opts *holdfast.Options) *holdfast.Client {
	rdb := redistest.NewClient(l, l.proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = 300 * time.Millisecond })
	if l.hook != nil {
		rdb.AddHook(l.hook)
	}
	return kindtest.NewClient(l, rdb, opts)
}

// around makes a client of the library that meets no faults and no mutants.
func (l *lab) around() *holdfast.Client { return kindtest.NewClient(l, l.srv.Client(l), nil) }

// mutex makes the lock on a client of its own.
func (l *lab) mutex(opts *holdfast.Options) *rlock.Mutex { return rlock.New(l.client(opts), name) }

// lock gets the lock, which is free.
func (l *lab) lock(m holdfast.Locker, ctx context.Context, opts ...holdfast.Option) *holdfast.Hold {
	h, err := m.Lock(ctx, append(opts, holdfast.Wait(patience))...)
	require.NoError(l, err)
	return h
}

// warm makes all scripts known to the server, mutants included.
func (l *lab) warm(m *rlock.Mutex) {
	h := l.lock(m, l.Context())
	inner := l.lock(m, h.Context())
	require.NoError(l, inner.Unlock(l.Context()))
	require.NoError(l, h.Extend(l.Context(), time.Minute)) // a mutant may shorten it
	require.NoError(l, h.Unlock(l.Context()))
	require.NoError(l, l.direct.FlushAll(l.Context()).Err())
	l.warmed = len(l.proxy.Requests())
}

// next adds a fault for the next sending of a script, mutated or not, known to the server or not.
func (l *lab) next(s *lua.Script, action faultproxy.Action) *faultproxy.Rule {
	return l.proxy.On(l.sends(s), 1, action)
}

func (l *lab) sends(s *lua.Script) func([]string) bool {
	is, mutated := faultproxy.Script(s.Hash()), mutant.Hash(l.hook)
	return func(args []string) bool { return is(args) || faultproxy.Script(mutated)(args) }
}

// comes waits for what is promised and reports whether it came; with the defence for as long as a busy machine needs.
func (l *lab) comes(cond func() bool) bool {
	limit := patience
	if l.off {
		limit = never
	}
	return redistest.Within(limit, cond)
}

// free reports whether nobody holds the lock in Redis.
func (l *lab) free() bool { return l.direct.HLen(context.Background(), name).Val() == 0 }

// count is an owner's hold count in Redis.
func (l *lab) count(h *holdfast.Hold) string {
	return l.direct.HGet(context.Background(), name, h.Owner()).Val()
}

// background runs a Lock beside the test.
func (l *lab) background(m holdfast.Locker, ctx context.Context) *kindtest.Pending {
	return kindtest.Begin(ctx, l, m.Lock)
}

// outcome is what a Lock that runs beside was granted, nil if it was not in time.
func (l *lab) outcome(granted *kindtest.Pending) (h *holdfast.Hold) {
	if l.comes(granted.Over) {
		h, _ = granted.Result()
	}
	return h
}
