package kindtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
)

const (
	// soon is the deadline of a call while its servers say nothing.
	soon = 600 * time.Millisecond
	// budget is a retry budget. A busy machine has to prepare such a call within it, too.
	budget = 2 * time.Second
	// long is a ReadTimeout of which not even half is over when such a call has to have returned.
	long = 10 * time.Second
	// tardy is an answer that nobody calls prompt.
	tardy = 20 * time.Millisecond
)

// frozen is a call that was begun while the servers say nothing.
type frozen struct {
	what string
	n    network
	do   func() error
	took time.Duration
	done chan error
}

// deadlineHolds: each operation returns at its caller's deadline, whatever go-redis waits for. Each has its own participant:
// after prompt answers it may be sent in the caller's goroutine, after slow ones in another.
func deadlineHolds(s *subject) (harm error) {
	var calls []*frozen
	calls = append(calls, s.frozenBy(long, 0)...)
	calls = append(calls, s.frozenBy(-1, 0)...)
	calls = append(calls, s.frozenBy(-1, tardy)...)
	for _, one := range calls {
		one.n.silence(true)
		defer one.n.thaw()
	}
	for _, one := range calls {
		go func() {
			begun := time.Now()
			err := one.do()
			one.took = time.Since(begun)
			one.done <- err
		}()
	}
	limit := make(chan struct{})
	time.AfterFunc(long/2, func() { close(limit) })
	for _, one := range calls {
		harm = errors.Join(harm, one.wrong(s, limit))
	}
	return harm
}

// wrong waits until the call has returned, at most until the limit, and says what was wrong with that.
func (f *frozen) wrong(s *subject, limit <-chan struct{}) error {
	var err error
	select {
	case err = <-f.done:
	case <-limit:
		select {
		case err = <-f.done: // before
		default:
			return fmt.Errorf("%s: has not returned", f.what)
		}
	}
	s.Logf("%s: %v", f.what, f.took.Round(time.Millisecond)) // for people: no verdict comes of it
	if !errors.Is(err, holdfast.ErrUnavailable) {
		return fmt.Errorf("%s: %w", f.what, err)
	}
	if strings.HasPrefix(f.what, "lock, ") && len(f.n) == 1 {
		require.Contains(s, err.Error(), f.n[0].Addr(), "it says which server is silent")
	}
	return nil
}

// thaw ends a silence and its connections: who waits for ever for an answer does not do so here.
func (n network) thaw() {
	n.silence(false)
	n.each((*faultproxy.Proxy).Stop)
	n.each((*faultproxy.Proxy).Start)
}

// bounded is an operation whose caller has no time.
type bounded struct {
	name string
	// budget says that the retry budget ends it, held that it is one of a hold, and again that it needs two
	budget, held, again bool
	do                  func(ctx context.Context, l holdfast.Locker, outer, inner *holdfast.Hold) error
}

func (s *subject) bounded() []bounded {
	lock := func(ctx context.Context, l holdfast.Locker, opts ...holdfast.Option) error {
		return Err(l.Lock(ctx, opts...))
	}
	try := func(ctx context.Context, l holdfast.Locker, _, _ *holdfast.Hold) error {
		return Err(l.TryLock(ctx))
	}
	return []bounded{
		{"lock, by its context", false, false, false, func(ctx context.Context, l holdfast.Locker, _, _ *holdfast.Hold) error {
			return lock(ctx, l)
		}},
		{"lock, by Wait", false, false, false, func(_ context.Context, l holdfast.Locker, _, _ *holdfast.Hold) error {
			return lock(s.Context(), l, holdfast.Wait(soon))
		}},
		{"try", false, false, false, try},
		{"try, by the retry budget", true, false, false, func(_ context.Context, l holdfast.Locker, _, _ *holdfast.Hold) error {
			return try(s.Context(), l, nil, nil)
		}},
		{"re-enter", false, true, true, func(ctx context.Context, l holdfast.Locker, outer, _ *holdfast.Hold) error {
			end, _ := ctx.Deadline()
			ctx, cancel := context.WithDeadline(outer.Context(), end)
			defer cancel()
			return lock(ctx, l)
		}},
		{"extend", false, true, false, func(ctx context.Context, _ holdfast.Locker, outer, _ *holdfast.Hold) error {
			return outer.Extend(ctx, time.Hour)
		}},
		{"unlock within", true, true, true, func(_ context.Context, _ holdfast.Locker, _, inner *holdfast.Hold) error {
			return inner.Unlock(s.Context())
		}},
		{"unlock", true, true, false, func(_ context.Context, _ holdfast.Locker, outer, _ *holdfast.Hold) error {
			return outer.Unlock(s.Context())
		}},
	}
}

// frozenBy makes the calls of participants with a ReadTimeout, whose servers answered so late before.
func (s *subject) frozenBy(read, late time.Duration) (calls []*frozen) {
	for _, op := range s.bounded() {
		if s.kind.Once && op.again {
			continue
		}
		opts := &holdfast.Options{RetryBudget: patience} // a busy machine may need as long to prepare
		if op.budget {
			opts.RetryBudget = budget
		}
		c, n := s.kind.far(s.T, s.seen(opts), read, s.hooks...)
		what := fmt.Sprintf("%s, ReadTimeout %v, answers before after %v", op.name, read, late)
		l := c.New(s.name + what)
		var outer, inner *holdfast.Hold
		if op.held {
			outer = s.lock(s.Context(), l)
		}
		if op.held && op.again {
			inner = s.lock(outer.Context(), l)
		}
		if late > 0 {
			n.each(func(p *faultproxy.Proxy) { p.DelayReply(func([]string) bool { return true }, 0, late) })
		}
		s.unlock(s.lock(s.Context(), c.New(s.name+what+" before")))
		calls = append(calls, &frozen{what, n, func() error {
			ctx, cancel := context.WithTimeout(s.Context(), soon)
			defer cancel()
			return op.do(ctx, l, outer, inner)
		}, 0, make(chan error, 1)})
	}
	return calls
}

// redial is a hook that redials after a refusal until the test is over, as go-redis does for a while before it gives up.
type redial struct {
	refused, over chan struct{} // closed when a majority of the servers has refused, and by the end of the test

	mu sync.Mutex // guards the rest
	by map[string]bool
	of int // servers
}

// note notes that a server has refused.
func (r *redial) note(addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[addr] = true; len(r.by) == r.of/2+1 {
		close(r.refused)
		r.of = math.MaxInt // once
	}
}

// DialHook is of redis.Hook.
func (r *redial) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err != nil {
			r.note(addr)
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
		dial := &redial{refused: make(chan struct{}), over: make(chan struct{}), by: map[string]bool{}, of: math.MaxInt}
		c, n := s.kind.far(s.T, s.seen(nil), farTimeout, append(slices.Clone(s.hooks), dial)...)
		dial.of = len(n)
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
		// A command may have gone out by a connection whose end go-redis had not seen yet.
		told := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
		if !errors.Is(err, holdfast.ErrUnavailable) || !told {
			harm = errors.Join(harm, fmt.Errorf("%s: %w", op.what, err))
		}
	}
	return harm
}
