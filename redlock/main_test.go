package redlock_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const patience = kindtest.Patience

var (
	eventually = kindtest.Eventually
	uniqueName = kindtest.UniqueName
)

// lab is some masters and the ways to reach them.
type lab struct {
	*testing.T
	masters []*redistest.Server
	direct  []*redis.Client
}

func newLab(t *testing.T, n int) *lab {
	t.Helper()
	l := &lab{T: t, masters: redistest.StartMasters(t, n)}
	for _, m := range l.masters {
		l.direct = append(l.direct, m.Client(t))
	}
	return l
}

// party is one process: a client for each master, behind a proxy of its own.
type party struct {
	timeout time.Duration // of its locks for each master
	clients []*holdfast.Client
	rdbs    []*redis.Client
	proxies []*faultproxy.Proxy
}

// party makes one. Its calls give up a silent connection soon, so that a test need not wait long.
func (l *lab) party(opts *holdfast.Options) *party {
	l.Helper()
	return l.patient(opts, 500*time.Millisecond)
}

// patient is a party whose calls give up a silent connection after so long.
func (l *lab) patient(opts *holdfast.Options, read time.Duration) *party {
	l.Helper()
	lease := holdfast.DefaultLease
	if opts != nil && opts.Lease > 0 {
		lease = opts.Lease
	}
	p := &party{timeout: min(3*time.Second, lease/4)} // the default is too short for a busy machine
	for _, m := range l.masters {
		proxy := faultproxy.New(l.T, m.Addr())
		rdb := redistest.NewClient(l.T, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = read })
		c, err := holdfast.New(rdb, opts)
		require.NoError(l, err)
		p.proxies, p.rdbs, p.clients = append(p.proxies, proxy), append(p.rdbs, rdb), append(p.clients, c)
	}
	for _, c := range p.clients {
		redistest.CloseAtEnd(l.T, c)
	}
	return p
}

// mutex is a lock of the party's.
func (p *party) mutex(name string, opts ...holdfast.Option) *redlock.Mutex {
	return redlock.New(p.clients, name, append([]holdfast.Option{redlock.MasterTimeout(p.timeout)}, opts...)...)
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

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// awaitEnd waits until a hold's context ends and returns why.
func awaitEnd(t *testing.T, h *holdfast.Hold) error {
	t.Helper()
	select {
	case <-h.Context().Done():
		return context.Cause(h.Context())
	case <-time.After(patience):
		t.Fatal("the hold's context does not end")
		return nil
	}
}

// lockOnce locks and unlocks.
func lockOnce(ctx context.Context, m holdfast.Locker) error {
	h, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return h.Unlock(ctx)
}

// close closes all clients of a party, which waits for what is done in the background.
func (p *party) close(t *testing.T) {
	t.Helper()
	for _, c := range p.clients {
		require.NoError(t, c.Close(t.Context()))
	}
}
