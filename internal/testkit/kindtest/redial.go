package kindtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
)

// redial is a hook that goes on to open a connection which was refused, until the test is over. So does
// go-redis for a while, before a command fails for that.
type redial struct {
	once          sync.Once
	refused, over chan struct{} // closed by the first refusal, and by the end of the test
}

// DialHook is of redis.Hook.
func (r *redial) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err != nil {
			r.once.Do(func() { close(r.refused) })
			select {
			case <-r.over:
			case <-ctx.Done():
			}
		}
		return c, err
	}
}

// ProcessHook is of redis.Hook.
func (*redial) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook is of redis.Hook.
func (*redial) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// redials: who leaves while go-redis still dials is told what the network has said so far.
func redials(s *subject) (harm error) {
	for _, op := range []struct {
		what        string
		held, again bool // it is one of a hold, and it re-enters
		do          func(ctx context.Context, c Client, l holdfast.Locker, h *holdfast.Hold) error
	}{
		{"lock", false, false, func(ctx context.Context, _ Client, l holdfast.Locker, _ *holdfast.Hold) error {
			_, err := l.Lock(ctx)
			return err
		}},
		{"state", false, false, func(ctx context.Context, c Client, _ holdfast.Locker, _ *holdfast.Hold) error {
			_, err := c.State(ctx, s.name)
			return err
		}},
		{"re-enter", true, true, func(ctx context.Context, _ Client, l holdfast.Locker, _ *holdfast.Hold) error {
			_, err := l.Lock(ctx)
			return err
		}},
		{"extend", true, false, func(ctx context.Context, _ Client, _ holdfast.Locker, h *holdfast.Hold) error {
			return h.Extend(ctx, time.Hour)
		}},
	} {
		if op.again && s.kind.Once {
			continue
		}
		dial := &redial{refused: make(chan struct{}), over: make(chan struct{})}
		c, n := s.kind.far(s.T, s.seen(nil), farTimeout, append(slices.Clone(s.hooks), dial)...)
		s.Cleanup(func() { close(dial.over) })
		l, ctx, h := c.New(s.name+op.what), s.Context(), (*holdfast.Hold)(nil)
		if op.held {
			h = s.lock(ctx, l)
			ctx = h.Context()
		}
		ctx, cancel := context.WithCancel(ctx)
		n.each((*faultproxy.Proxy).Stop)
		s.Cleanup(func() { n.each((*faultproxy.Proxy).Start) })
		done := make(chan error, 1)
		go func() { done <- op.do(ctx, c, l, h) }()
		Receive(s, op.what+": it is refused", dial.refused)
		cancel()
		err := Receive(s, op.what+": it returns", done)
		if !errors.Is(err, holdfast.ErrUnavailable) || !errors.Is(err, syscall.ECONNREFUSED) {
			harm = errors.Join(harm, fmt.Errorf("%s: %w", op.what, err))
		}
	}
	return harm
}
