package kindtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
)

// Log is a log, or the output of a process, that a test reads while it is written.
type Log struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

// Write is of io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Lines are those of it; one that is empty if there are none.
func (l *Log) Lines() []string { return strings.Split(strings.TrimSpace(l.String()), "\n") }

// Logger writes to it.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Lines is a log, line by line. What it has no room for is left out.
type Lines chan string

// Write is of io.Writer.
func (l Lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}

// Witness hears what a client tells an observer. Wrong are calls not answered once, and holds not ended once after a grant.
type Witness struct {
	scripts atomic.Int64

	mu      sync.Mutex // guards the rest
	calls   []*Call
	wrong   []string
	renewed map[string]int // names of locks
}

// Call is one Lock or TryLock as its client's observer hears of it.
type Call struct {
	Wait    event.Wait
	Granted *event.Grant // nil: it was not
	Refused *event.Refusal
	Ended   *event.End
}

type callKey struct{}

// Observer is what the client is given. It may be given to several.
func (w *Witness) Observer() *event.Observer {
	return &event.Observer{
		Waiting: func(ctx context.Context, e event.Wait) context.Context {
			c := &Call{Wait: e}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls = append(w.calls, c)
			return context.WithValue(ctx, callKey{}, c)
		},
		Granted: func(ctx context.Context, e event.Grant) {
			w.on(ctx, func(c *Call) {
				w.once(c, "granted", c.Granted == nil && c.Refused == nil && e.Waited >= 0)
				c.Granted = &e
			})
		},
		Refused: func(ctx context.Context, e event.Refusal) {
			w.on(ctx, func(c *Call) {
				w.once(c, "refused", c.Granted == nil && c.Refused == nil && e.Err != nil && e.Waited >= 0)
				c.Refused = &e
			})
		},
		Ended: func(ctx context.Context, e event.End) {
			w.on(ctx, func(c *Call) {
				w.once(c, "ended", c.Granted != nil && c.Ended == nil && ctx.Err() == nil && e.Held >= 0 && why(e.Reason) != "" &&
					e.Token == c.Granted.Token && e.Owner == c.Granted.Owner && e.Count == c.Granted.Count)
				c.Ended = &e
			})
		},
		Renewed: func(e event.Renewal) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.renewed == nil {
				w.renewed = map[string]int{}
			}
			w.renewed[e.Name]++
		},
		Sent: func(event.Script) { w.scripts.Add(1) },
		Dropped: func(n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.wrong = append(w.wrong, fmt.Sprintf("%d events were dropped", n))
		},
	}
}

// Play tells an observer of a call granted, held, renewed and lost (found by a renewal), of one refused, and of the rest once.
func Play(o *event.Observer, kind, name string, found error) {
	ctx := o.Waiting(context.Background(), event.Wait{Kind: kind, Name: name})
	o.Granted(ctx, event.Grant{Kind: kind, Name: name, Owner: "o", Token: 1, Count: 1, How: event.HandedOn,
		Waited: 2 * time.Second, Contended: true})
	o.Renewed(event.Renewal{Kind: kind, Name: name, Lease: 30 * time.Second, Left: 5 * time.Second})
	o.Ended(ctx, event.End{Kind: kind, Name: name, Owner: "o", Token: 1, Count: 1, Held: time.Minute,
		Reason: fmt.Errorf("%w: %w", holdfast.ErrLost, found), Err: holdfast.ErrUncertain})
	ctx = o.Waiting(context.Background(), event.Wait{Kind: kind, Name: name, Once: true})
	o.Refused(ctx, event.Refusal{Kind: kind, Name: name, Err: holdfast.ErrNotAcquired})
	o.Sent(event.Script{Script: "acquire", Took: time.Millisecond, Repeats: 1, Err: io.EOF})
	o.Subscribed(event.Subscription{Server: "s"})
	o.Dropped(2)
	o.SelfBlocked(event.SelfBlock{Kind: kind, Name: name})
	o.Deadlocked(event.Deadlock{Kind: kind, Name: name})
}

func (w *Witness) on(ctx context.Context, note func(*Call)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := ctx.Value(callKey{}).(*Call)
	if !ok {
		w.wrong = append(w.wrong, "an event without the context of its Waiting")
		return
	}
	note(c)
}

func (w *Witness) once(c *Call, event string, ok bool) {
	if !ok {
		w.wrong = append(w.wrong, fmt.Sprintf("%s, after %s", event, c))
	}
}

// String is for failures.
func (c *Call) String() string {
	return fmt.Sprintf("%+v: granted %+v, refused %+v, ended %+v", c.Wait, c.Granted, c.Refused, c.Ended)
}

// Calls are those that were heard of until now, oldest first.
func (w *Witness) Calls() (all []Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		all = append(all, *c)
	}
	return all
}

// Scripts is how many have been answered.
func (w *Witness) Scripts() int { return int(w.scripts.Load()) }

// Renewals is how many attempts there were to renew a lock.
func (w *Witness) Renewals(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.renewed[name]
}

// Wrong is what must not be, now that all clients have been closed, and all calls have returned.
func (w *Witness) Wrong() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []error
	for _, text := range w.wrong {
		all = append(all, errors.New(text))
	}
	for _, c := range w.calls {
		switch {
		case c.Granted == nil && c.Refused == nil:
			all = append(all, fmt.Errorf("a call without an answer: %s", c))
		case c.Granted != nil && c.Ended == nil:
			all = append(all, fmt.Errorf("a hold without an end: %s", c))
		}
	}
	return errors.Join(all...)
}

// why is a reason by name; empty if it is none.
func why(reason error) string {
	for name, err := range map[string]error{
		"released": holdfast.ErrReleased, "lost": holdfast.ErrLost, "closed": holdfast.ErrClosed,
	} {
		if errors.Is(reason, err) {
			return name
		}
	}
	return ""
}

// witnessed observes all participants of a test that does not do so itself, and checks what was told once they are closed.
func (s *subject) witnessed() {
	client, w := s.kind.Client, &s.witness
	s.Cleanup(func() { // after those by which the clients are closed
		if !s.Failed() {
			require.Eventually(s, func() bool { return w.Wrong() == nil }, patience, time.Millisecond, "%v", (*later)(w))
		}
	})
	s.kind.Client = func(t *testing.T, opts *holdfast.Options) Client { return client(t, s.seen(opts)) }
}

// seen are the options of a participant that is observed by the test, unless it is by somebody else.
func (s *subject) seen(opts *holdfast.Options) *holdfast.Options {
	var o holdfast.Options
	if opts != nil {
		o = *opts
	}
	if o.Observer == nil {
		o.Observer = s.witness.Observer()
	}
	return &o
}

// later is what is wrong when it is printed.
type later Witness

func (w *later) String() string { return (*Witness)(w).Wrong().Error() }

// calls waits for the ends of all grants that an observer has heard of so far, and returns the calls.
func (s *subject) told(w *Witness) []Call {
	s.eventually("every end is told", func() bool { return w.Wrong() == nil })
	return w.Calls()
}

// observed: one answer for each call and one end for each hold, with what is known of it.
func observed(s *subject) {
	var w Witness
	c := s.kind.Client(s.T, &holdfast.Options{Lease: s.kind.Lease, Observer: w.Observer()})
	mine, other := c.New(s.name), s.locker()

	h := s.lock(s.Context(), mine)
	inner := s.reenter(h, mine)
	s.leave(inner)
	s.eventually("it is renewed", func() bool { return w.Renewals(s.name) > 0 })
	s.unlock(h)
	require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrReleased)
	calls := s.told(&w)
	first := calls[0]
	require.Equal(s, event.Wait{Kind: s.of(), Name: s.name}, first.Wait)
	require.Equal(s, event.Grant{
		Kind: s.of(), Name: s.name, Owner: h.Owner(), Token: h.Token(), Count: 1, How: event.Asked, Waited: first.Granted.Waited,
	}, *first.Granted)
	require.Positive(s, first.Granted.Waited)
	require.Equal(s, "released", why(first.Ended.Reason))
	require.NoError(s, first.Ended.Err)
	require.Positive(s, first.Ended.Held)
	s.eventually("scripts are told", func() bool { return w.Scripts() > 0 || s.kind.Memory })
	if inner != nil {
		require.Equal(s, event.Reentered, calls[1].Granted.How)
		require.Equal(s, 2, calls[1].Granted.Count)
		require.Equal(s, "released", why(calls[1].Ended.Reason))
	}

	n := len(calls)
	theirs := s.lock(s.Context(), other)
	require.Error(s, Err(mine.TryLock(s.Context())))
	calls = s.told(&w)[n:]
	require.Len(s, calls, 1)
	require.True(s, calls[0].Wait.Once)
	require.ErrorIs(s, calls[0].Refused.Err, holdfast.ErrNotAcquired)

	waiter := s.waiting(s.Context(), mine)
	s.unlock(theirs)
	h = waiter.Hold()
	last := func(calls []Call) Call { return calls[len(calls)-1] }
	require.True(s, last(w.Calls()).Granted.Contended || s.kind.Members != "", "it had to wait")
	s.unlock(h)
	require.Equal(s, "released", why(last(s.told(&w)).Ended.Reason))

	plain := s.lock(s.Context(), mine, holdfast.NoRenewal())
	require.ErrorIs(s, Ended(s, plain), holdfast.ErrLost)
	require.Equal(s, "lost", why(last(s.told(&w)).Ended.Reason), "at the end of its lease")
	require.NoError(s, last(w.Calls()).Ended.Err, "nobody has unlocked")

	h = s.lock(s.Context(), mine)
	require.NoError(s, c.Close(context.Background()))
	require.Equal(s, "closed", why(last(s.told(&w)).Ended.Reason))
	require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrClosed)
	require.NoError(s, w.Wrong())
}

// observedLoss: a loss that a renewal finds, and one that Unlock finds.
func observedLoss(s *subject) {
	for _, byUnlock := range []bool{false, true} {
		var w Witness
		o := holdfast.Options{Observer: w.Observer()}
		if !byUnlock {
			o.Lease = s.kind.Lease
		}
		s.name += "+"
		h := s.lock(s.Context(), s.kind.Client(s.T, &o).New(s.name))
		s.kind.Lose(s.T, s.name)
		if !byUnlock {
			require.ErrorIs(s, Ended(s, h), holdfast.ErrLost)
		}
		require.ErrorIs(s, h.Unlock(s.Context()), holdfast.ErrLost)
		calls := s.told(&w)
		require.Len(s, calls, 1)
		require.Equal(s, "lost", why(calls[0].Ended.Reason))
		require.Equal(s, byUnlock, calls[0].Ended.Err != nil)
	}
}

// of is the kind that events have: a multilock is none, its members are.
func (s *subject) of() string {
	if s.kind.Members != "" {
		return s.kind.Members
	}
	return s.kind.Name
}
