package redlock_test

import (
	"context"
	"flag"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// TestMain lets three tests run beside each other, whatever the command line says: each has up to five servers, and a
// master that has not answered for a second is a silent one here.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "3")
	redistest.Main(m)
}

const patience = kindtest.Patience

var (
	lock, take, unlock = kindtest.Lock, kindtest.Take, kindtest.Unlock
	begin, refused     = kindtest.Begin, kindtest.Refused
	awaitEnd, lockOnce = kindtest.Ended, kindtest.Pair
	tells, not         = kindtest.Tells, kindtest.Not

	eventually = kindtest.Eventually
	uniqueName = kindtest.UniqueName
)

// What masters are sent.
var isVote, isRelease, isRenewal = kindtest.Script(lua.Vote), kindtest.Script(lua.Release), kindtest.Script(lua.Renew)

// lab is some masters and the ways to reach them.
type lab struct {
	*testing.T
	masters []*redistest.Server
	direct  []*redis.Client
}

func newLab(t *testing.T, n int, opts ...redistest.Option) *lab {
	l := &lab{T: t, masters: redistest.StartMasters(t, n, opts...)}
	for _, m := range l.masters {
		l.direct = append(l.direct, m.Client(t))
	}
	return l
}

// process is one process: a client for each master, behind a proxy of its own.
type process struct {
	timeout time.Duration // of its locks for each master
	clients []*holdfast.Client
	rdbs    []*redis.Client
	proxies []*faultproxy.Proxy
}

// process makes one. Its calls give up a silent connection soon, so that a test need not wait long.
func (l *lab) process(opts *holdfast.Options) *process {
	return l.patient(opts, time.Second)
}

// newProcess makes some masters and one process.
func newProcess(t *testing.T, n int) (*lab, *process) {
	l := newLab(t, n)
	return l, l.process(nil)
}

// newParty makes some masters, one process and a lock of its.
func newParty(t *testing.T, n int, opts *holdfast.Options) (*lab, *process, *redlock.Mutex) {
	l := newLab(t, n)
	p := l.process(opts)
	return l, p, p.mutex(uniqueName(t))
}

// patient is a process whose calls give up a silent connection after so long.
func (l *lab) patient(opts *holdfast.Options, read time.Duration) *process {
	lease := holdfast.DefaultLease
	if opts != nil && opts.Lease > 0 {
		lease = opts.Lease
	}
	p := &process{timeout: min(3*time.Second, lease/4)} // the default is too short for a busy machine
	for _, m := range l.masters {
		rdb, proxy := kindtest.Behind(l.T, m.Addr(), read)
		c, err := holdfast.New(rdb, kindtest.Unlabelled(opts))
		require.NoError(l, err)
		p.proxies, p.rdbs, p.clients = append(p.proxies, proxy), append(p.rdbs, rdb), append(p.clients, c)
	}
	for _, c := range p.clients {
		redistest.CloseAtEnd(l.T, c)
	}
	return p
}

// mutex is a lock of the process's.
func (p *process) mutex(name string, opts ...holdfast.Option) *redlock.Mutex {
	return redlock.New(p.clients, name, append([]holdfast.Option{redlock.MasterTimeout(p.timeout)}, opts...)...)
}

// load has each request of these scripts be one, at all masters.
func (l *lab) load(scripts ...*lua.Script) {
	for _, rdb := range l.direct {
		kindtest.Load(l, rdb, scripts...)
	}
}

// holders is what each master has: the owner and the count, or nothing.
func (l *lab) holders(name string) (list []map[string]string) {
	for _, rdb := range l.direct {
		list = append(list, rdb.HGetAll(context.Background(), name).Val())
	}
	return list
}

// held is how many masters have a holder.
func (l *lab) held(name string) (n int) {
	for _, h := range l.holders(name) {
		if len(h) > 0 {
			n++
		}
	}
	return n
}

// give has a master say that it has granted a lock to somebody else.
func (l *lab) give(i int, name, owner string, lease time.Duration) {
	require.NoError(l, l.direct[i].Del(l.Context(), name).Err())
	require.NoError(l, l.direct[i].HSet(l.Context(), name, owner, 1).Err())
	require.NoError(l, l.direct[i].PExpire(l.Context(), name, lease).Err())
}

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// once is a lock that is given back as soon as it is granted.
func once(m holdfast.Locker) kindtest.Acquire {
	return func(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
		return nil, kindtest.Pair(ctx, m, opts...)
	}
}

// close closes all clients of a process, which waits for what is done in the background.
func (p *process) close(t *testing.T) {
	for _, c := range p.clients {
		require.NoError(t, c.Close(t.Context()))
	}
}

// TestKind: what every kind of lock promises. The masters are waited for as long as a busy machine may need. They are trusted
// though they were started only now, because the suite leaves locks taken for an hour.
func TestKind(t *testing.T) {
	mutex := func(c []*holdfast.Client, name string, opts ...holdfast.Option) *redlock.Mutex {
		trusted := []holdfast.Option{redlock.TrustRestarts(), redlock.MasterTimeout(time.Second)}
		return redlock.New(c, name, append(trusted, opts...)...)
	}
	kindtest.Run(t, kindtest.Kind{Name: "redlock", Lease: 2 * time.Second}.On(t, kindtest.Servers{
		All: redistest.StartMasters(t, 3),
		New: func(c []*holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
			return mutex(c, name, opts...)
		},
		State: func(ctx context.Context, c []*holdfast.Client, name string) (holdfast.State, error) {
			s, err := mutex(c, name).State(ctx)
			return s.State, err
		},
		Force: func(ctx context.Context, c []*holdfast.Client, name string) (bool, error) {
			return mutex(c, name).ForceUnlock(ctx)
		},
		Fields: []any{kindtest.Stranger + ":47", 1},
	}))
}
