package memory_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/memory"
)

// told is what a client tells of losses, and which block from the first on: a log whose sink is full, or an observer.
type told struct {
	slog.Handler
	blocked  chan struct{} // closed when it blocks
	released chan struct{}
}

func newTold() *told { return &told{slog.DiscardHandler, make(chan struct{}), make(chan struct{})} }

func (b *told) block() {
	select {
	case <-b.blocked:
	default:
		close(b.blocked)
	}
	<-b.released
}

// Enabled and Handle are of [slog.Handler].
func (b *told) Enabled(context.Context, slog.Level) bool { return true }

func (b *told) Handle(context.Context, slog.Record) error { b.block(); return nil }

// asides are those who are told, and the defence by which they keep nobody waiting.
var asides = map[string]struct {
	opts    func(b *told) *holdfast.Options
	without *defence.Switch
}{
	"a log": {
		func(b *told) *holdfast.Options { return &holdfast.Options{Logger: slog.New(b)} }, &defence.AsyncLog,
	},
	"an observer": {
		func(b *told) *holdfast.Options {
			return &holdfast.Options{Observer: &event.Observer{
				Ended: func(context.Context, event.End) { b.block() },
				Renewed: func(event.Renewal) {
					select {
					case <-b.blocked:
						<-b.released
					default:
					}
				},
				Sent: func(event.Script) {},
			}}
		}, &defence.AsyncEvents,
	},
}

// lockFor takes a lock of its own name.
func lockFor(t *testing.T, c *holdfast.Client, s *memory.Server, name string, opts ...holdfast.Option) *holdfast.Hold {
	return kindtest.Take(t.Context(), t, memory.New(c, s, name).Lock, opts...)
}

// TestBlockedAside: who is told of a loss blocks, for an hour. Other holds are renewed, or end in the moment in which their
// leases do, all the same. Close waits until its context ends, and not longer, and has given back what was held.
func TestBlockedAside(t *testing.T) {
	for name, aside := range asides {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, s := newTold(), &memory.Server{}
				c, err := memory.NewClient(aside.opts(b))
				require.NoError(t, err)
				renewed := lockFor(t, c, s, "renewed")
				lockFor(t, c, s, "first", holdfast.NoRenewal(), holdfast.Lease(time.Second))
				plain := lockFor(t, c, s, "plain", holdfast.NoRenewal(), holdfast.Lease(time.Minute))
				<-b.blocked
				end := plain.Deadline()
				<-plain.Context().Done()
				require.Equal(t, end, time.Now())
				time.Sleep(time.Hour)
				require.NoError(t, renewed.Context().Err())

				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				begun := time.Now()
				require.ErrorIs(t, c.Close(ctx), context.DeadlineExceeded)
				require.Equal(t, time.Minute, time.Since(begun))
				require.ErrorIs(t, context.Cause(renewed.Context()), holdfast.ErrClosed)
				require.Empty(t, s.Owner("renewed"))
				close(b.released)
				synctest.Wait()
			})
		})
	}
}

// TestBlockedAsideControl: the same where the watchdog waits for them: others are granted both locks, and nobody is told.
func TestBlockedAsideControl(t *testing.T) {
	defer defence.Glance.Without(t)() // else they find out when they are asked
	for name, aside := range asides {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(aside.without.Without(t))
			synctest.Test(t, func(t *testing.T) {
				b, s := newTold(), &memory.Server{}
				c, err := memory.NewClient(aside.opts(b))
				require.NoError(t, err)
				holds := map[string]*holdfast.Hold{
					"renewed": lockFor(t, c, s, "renewed"),
					"plain":   lockFor(t, c, s, "plain", holdfast.NoRenewal(), holdfast.Lease(time.Minute)),
				}
				lockFor(t, c, s, "first", holdfast.NoRenewal(), holdfast.Lease(time.Second))
				<-b.blocked
				for name, h := range holds {
					lockFor(t, client(t, nil), s, name)
					select {
					case <-h.Context().Done():
						t.Error("told, although who is told blocks")
					default:
					}
				}
				close(b.released)
				for _, h := range holds {
					<-h.Context().Done()
					require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrLost)
				}
				require.NoError(t, c.Close(t.Context()))
			})
		})
	}
}

// stuck runs a test with two holds of one overdue grant whose watchdog does not run, as in a process that just went on.
func stuck(t *testing.T, test func(t *testing.T, h, inner *holdfast.Hold)) {
	synctest.Test(t, func(t *testing.T) {
		restore := defence.AsyncLog.Without(t) // so that a log stops the watchdog
		b, s := newTold(), &memory.Server{}
		c, err := memory.NewClient(&holdfast.Options{Logger: slog.New(b)})
		require.NoError(t, err)
		h := lockFor(t, c, s, "a", holdfast.NoRenewal(), holdfast.Lease(time.Minute))
		inner := kindtest.Take(h.Context(), t, memory.New(c, s, "a").Lock, holdfast.NoRenewal())
		lockFor(t, c, s, "b", holdfast.NoRenewal(), holdfast.Lease(time.Second))
		<-b.blocked
		restore()
		require.NoError(t, inner.Context().Err())
		time.Sleep(time.Until(h.Deadline()))
		test(t, h, inner)
		close(b.released)
		require.NoError(t, c.Close(t.Context()))
	})
}

// TestContextLooks: after its deadline a hold's context is over, however it is asked, though nobody ended it. The hold knows.
func TestContextLooks(t *testing.T) {
	for name, ask := range map[string]func(t *testing.T, ctx context.Context){
		"Err": func(t *testing.T, ctx context.Context) { require.ErrorIs(t, ctx.Err(), context.Canceled) },
		"Done": func(t *testing.T, ctx context.Context) {
			select {
			case <-ctx.Done():
			default:
				t.Error("lives")
			}
		},
		"Cause": func(t *testing.T, ctx context.Context) { require.ErrorIs(t, context.Cause(ctx), holdfast.ErrLost) },
		"derived": func(t *testing.T, ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			require.ErrorIs(t, context.Cause(ctx), holdfast.ErrLost)
		},
		"with a value": func(t *testing.T, ctx context.Context) {
			require.ErrorIs(t, context.WithValue(ctx, t, 0).Err(), context.Canceled)
		},
		"a first one": func(t *testing.T, ctx context.Context) {
			require.ErrorIs(t, holdfast.WithOwner(ctx).Err(), context.Canceled)
		},
	} {
		t.Run(name, func(t *testing.T) {
			stuck(t, func(t *testing.T, h, inner *holdfast.Hold) {
				ask(t, h.Context())
				for _, h := range []*holdfast.Hold{h, inner} {
					require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrLost)
					require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost)
				}
			})
		})
	}
	t.Run("unlock of the inner one", func(t *testing.T) { // which asks the outer one, whose end is that of both
		stuck(t, func(t *testing.T, h, inner *holdfast.Hold) {
			require.ErrorIs(t, inner.Unlock(t.Context()), holdfast.ErrLost)
			require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrLost)
		})
	})
}

// TestContextLooksControl: without the look it lives.
func TestContextLooksControl(t *testing.T) {
	defer defence.Glance.Without(t)()
	stuck(t, func(t *testing.T, h, _ *holdfast.Hold) {
		require.NoError(t, h.Context().Err())
		require.NoError(t, context.Cause(h.Context()))
	})
}

// TestHeldUntilItIsReleased: a release's time is not held time, however the lock was asked for, also in an inner hold.
func TestHeldUntilItIsReleased(t *testing.T) {
	for name, opts := range map[string][]holdfast.Option{
		"as usual": nil, "not handed on": {holdfast.NoHandoff()}, "not renewed": {holdfast.NoRenewal()},
		"extended": {holdfast.Lease(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended []time.Duration
				c, err := memory.NewClient(&holdfast.Options{Observer: &event.Observer{
					Ended: func(_ context.Context, e event.End) { ended = append(ended, e.Held) },
				}})
				require.NoError(t, err)
				s := &memory.Server{ReleaseTakes: 2 * time.Second}
				h := lockFor(t, c, s, "a", opts...)
				time.Sleep(time.Second)
				inner := kindtest.Take(h.Context(), t, memory.New(c, s, "a").Lock, opts...)
				if name == "extended" {
					require.NoError(t, h.Extend(t.Context(), time.Hour))
				}
				require.NoError(t, inner.Unlock(t.Context()))
				require.NoError(t, h.Unlock(t.Context()))
				require.NoError(t, c.Close(t.Context()))
				require.Equal(t, []time.Duration{0, time.Second}, ended)
			})
		})
	}
}
