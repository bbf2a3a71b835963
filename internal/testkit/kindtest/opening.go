package kindtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
)

// unopened is a way in which a client can be without connections that serve it.
type unopened struct {
	name   string
	strike func(n network, d *hungDial)
	says   string // the server to who waits until it does; empty: an outage
}

// The connections that a client has end, and of others this becomes.
var unopenedWays = []unopened{
	{name: "accepted and closed", strike: func(n network, _ *hungDial) { n.meet(faultproxy.Cut) }},
	{name: "accepted and silent", strike: func(n network, _ *hungDial) { n.meet(faultproxy.BlackHole) }},
	{name: "refused", strike: func(n network, _ *hungDial) { n.each((*faultproxy.Proxy).Stop) }},
	{name: "not answered", strike: func(_ network, d *hungDial) { d.hang.Store(true) }},
	{name: "of a server that loads", strike: func(n network, _ *hungDial) {
		n.refuse(faultproxy.Any, "LOADING Redis is loading the dataset in memory")
	}},
	{name: "of a replica", strike: func(n network, _ *hungDial) {
		n.refuse(scripts, "READONLY You can't write against a read only replica.")
	}},
	{name: "of a server with another password", strike: func(n network, _ *hungDial) {
		n.refuse(faultproxy.Any, "WRONGPASS invalid username-password pair or user is disabled.")
	}, says: "WRONGPASS"},
}

// tells reports whether a caller who waits for so long is told what is so, after a second of silence at the latest.
func (u unopened) tells(err error, wait time.Duration) bool {
	return errors.Is(err, holdfast.ErrUnavailable) || u.says != "" && wait == soon && strings.Contains(err.Error(), u.says)
}

// meet has each request meet a fault.
func (n network) meet(fault faultproxy.Action) {
	n.each(func(p *faultproxy.Proxy) { p.On(faultproxy.Any, 0, fault) })
}

// refuse has requests be answered with an error, later than who waits briefly stays.
func (n network) refuse(match func([]string) bool, text string) {
	n.each(func(p *faultproxy.Proxy) { p.Refuse(match, 0, tardy, text) })
}

// hungDial is a hook whose dials get no answer from some time on, until the test is over.
type hungDial struct {
	hang atomic.Bool
	over chan struct{}
}

// DialHook is of redis.Hook.
func (d *hungDial) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if d.hang.Load() {
			<-d.over
		}
		return next(ctx, network, addr)
	}
}

// ProcessHook is of redis.Hook.
func (*hungDial) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook is of redis.Hook.
func (*hungDial) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// neverOpens: callers come one after the other while no connection is opened, or none that serves. Those of a client that knows who has the lock, and who
// wait briefly, may be told that until the servers have been silent for a second.
func neverOpens(s *subject) error {
	h := s.lock(s.Context(), s.locker())
	var g sync.WaitGroup
	var mu sync.Mutex // guards harm
	var harm error
	for _, way := range unopenedWays {
		for _, warm := range []bool{true, false} {
			for _, wait := range []time.Duration{5 * time.Millisecond, soon} {
				if (testing.Short() || s.control) && (!warm || wait == soon) {
					continue
				}
				calls := s.unopened(way, warm, wait)
				g.Go(func() {
					n, err := calls()
					s.Logf("%s, Wait(%v), warm %v: %d calls: %v", way.name, wait, warm, n, err) // for people
					if !way.tells(err, wait) {
						mu.Lock()
						defer mu.Unlock()
						harm = errors.Join(harm, fmt.Errorf("%s, Wait(%v), warm %v: %w", way.name, wait, warm, err))
					}
				})
			}
		}
	}
	g.Wait()
	require.NoError(s, h.Unlock(s.Context()))
	return harm
}

// unopened makes a client whose connections end. The function that it returns has callers come until one is told of an outage, and
// returns how many came, and what the last was told.
func (s *subject) unopened(way unopened, warm bool, wait time.Duration) (calls func() (n int, err error)) {
	dial := &hungDial{over: make(chan struct{})}
	c, n := s.kind.far(s.T, s.seen(&holdfast.Options{RetryBudget: patience}), patience, dial)
	l := c.New(s.name)
	if warm {
		s.known(c)
		require.ErrorIs(s, Err(l.TryLock(s.Context())), holdfast.ErrNotAcquired)
	}
	way.strike(n, dial)
	n.each((*faultproxy.Proxy).CutAll)
	s.Cleanup(n.thaw)
	s.Cleanup(func() {
		close(dial.over)
		n.each((*faultproxy.Proxy).Clear)
	})
	limit := patience / 2
	if s.control {
		limit = 3 * time.Second
	}
	return func() (n int, err error) {
		for end := time.Now().Add(limit); time.Now().Before(end); {
			n++
			_, err = l.Lock(s.Context(), holdfast.Wait(wait))
			if way.tells(err, wait) {
				break
			}
		}
		return n, err
	}
}
