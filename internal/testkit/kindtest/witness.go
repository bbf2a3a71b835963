package kindtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast"
)

// Witness hears all that a client tells an observer, and finds what must not be: a call that is
// answered twice or not at all, a hold that ends twice, never, or before it was granted.
type Witness struct {
	mu      sync.Mutex // guards the rest
	calls   []*Call
	wrong   []string
	scripts int
	renewed map[string]int // names of locks
}

// Call is one Lock or TryLock as its client's observer hears of it.
type Call struct {
	Wait    holdfast.WaitEvent
	Granted *holdfast.GrantEvent // nil: it was not
	Refused *holdfast.RefusalEvent
	Ended   *holdfast.EndEvent
}

type callKey struct{}

// Observer is what the client is given. It may be given to several.
func (w *Witness) Observer() *holdfast.Observer {
	return &holdfast.Observer{
		Waiting: func(ctx context.Context, e holdfast.WaitEvent) context.Context {
			c := &Call{Wait: e}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls = append(w.calls, c)
			return context.WithValue(ctx, callKey{}, c)
		},
		Granted: func(ctx context.Context, e holdfast.GrantEvent) {
			w.on(ctx, func(c *Call) {
				w.once(c, "granted", c.Granted == nil && c.Refused == nil && e.Waited >= 0)
				c.Granted = &e
			})
		},
		Refused: func(ctx context.Context, e holdfast.RefusalEvent) {
			w.on(ctx, func(c *Call) {
				w.once(c, "refused", c.Granted == nil && c.Refused == nil && e.Err != nil && e.Waited >= 0)
				c.Refused = &e
			})
		},
		Ended: func(ctx context.Context, e holdfast.EndEvent) {
			w.on(ctx, func(c *Call) {
				w.once(c, "ended", c.Granted != nil && c.Ended == nil && ctx.Err() == nil && e.Held >= 0 && why(e.Reason) != "" &&
					e.Token == c.Granted.Token && e.Owner == c.Granted.Owner && e.Count == c.Granted.Count)
				c.Ended = &e
			})
		},
		Renewed: func(e holdfast.RenewalEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.renewed == nil {
				w.renewed = map[string]int{}
			}
			w.renewed[e.Name]++
		},
		Sent: func(holdfast.ScriptEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.scripts++
		},
		Dropped: func(n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.wrong = append(w.wrong, fmt.Sprintf("%d events were dropped", n))
		},
	}
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
func (w *Witness) Scripts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.scripts
}

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
