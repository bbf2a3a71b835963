package waitwatch

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/task"
)

// taken answers commands in the place of a server, and notes them: virtual time has no network.
type taken struct {
	mu       sync.Mutex // guards the rest
	commands []string
	err      error
}

func (k *taken) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
}

func (k *taken) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.commands = append(k.commands, fmt.Sprint(cmd.Args()))
		return k.err
	}
}

func (k *taken) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if err := k.ProcessHook(nil)(ctx, cmd); err != nil {
				cmd.SetErr(err)
			}
		}
		return cmds[0].Err()
	}
}

func (k *taken) take() []string {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.commands
	k.commands = nil
	return list
}

// logged counts records, and warnings among them.
type logged struct {
	slog.Handler
	n, warnings atomic.Int64
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	l.n.Add(1)
	if r.Level >= slog.LevelWarn {
		l.warnings.Add(1)
	}
	return nil
}

func newLabel(t *testing.T) (l *Label, k *taken, busy *atomic.Bool, log *logged) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	k, busy, log = &taken{}, &atomic.Bool{}, &logged{Handler: slog.DiscardHandler}
	rdb.AddHook(k)
	cfg := Config{
		Client: "id", Label: "label", Redis: rdb, Tasks: &task.Group{}, Log: slog.New(log), Life: context.Background(),
		Budget: func() time.Duration { return time.Second }, Within: context.WithTimeout, NotePanic: func(error) {},
	}
	return NewLabel(New(cfg), 30*time.Second, func() bool { return !busy.Load() }), k, busy, log
}

const (
	written = "[set holdfast_client:{id} label ex 90]"
	deleted = "[del holdfast_client:{id}]"
)

// TestLabelIsRenewed: it is written at most every 30 s while the client, or one that it serves, has something, and not after.
func TestLabelIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, k, busy, _ := newLabel(t)
		busy.Store(true)
		require.Empty(t, k.take(), "no Publish yet")
		for range 100 {
			l.Publish(0)
		}
		require.Equal(t, []string{written}, k.take())
		time.Sleep(61 * time.Second)
		require.Equal(t, []string{written, written}, k.take())

		busy.Store(false)
		time.Sleep(time.Hour)
		require.Empty(t, k.take(), "an idle client sends nothing")
		l.Publish(0)
		require.Equal(t, []string{written}, k.take())
		time.Sleep(time.Hour)
		require.Empty(t, k.take())
		l.Close()
		require.Equal(t, []string{deleted}, k.take())
		l.Publish(0)
		time.Sleep(time.Hour)
		require.Empty(t, k.take(), "a closed one writes nothing")
		require.NoError(t, l.cfg.Tasks.Wait(t.Context()))
	})
}

// TestLabelOutlasts: while a lock stays taken its client's label is there, whether the client goes on, is idle or closed. It
// is written once more only where it would end before the lock does.
func TestLabelOutlasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, k, _, _ := newLabel(t)
		l.Publish(0)
		require.Equal(t, []string{written}, k.take())
		l.Publish(10 * time.Minute)
		const lasting = "[set holdfast_client:{id} label ex 630]"
		require.Equal(t, []string{lasting}, k.take())
		for _, stays := range []time.Duration{0, time.Minute, 10 * time.Minute} {
			l.Publish(stays)
		}
		require.Empty(t, k.take())
		time.Sleep(time.Minute)
		require.Empty(t, k.take(), "an idle client sends nothing")
		l.Publish(0)
		require.Equal(t, []string{"[set holdfast_client:{id} label ex 570]"}, k.take(), "a write does not shorten its life")
		l.Close()
		require.Empty(t, k.take(), "the lock stays, so its label does")
		require.NoError(t, l.cfg.Tasks.Wait(t.Context()))
	})
	synctest.Test(t, func(t *testing.T) {
		l, k, _, _ := newLabel(t)
		l.Publish(time.Minute)
		require.Len(t, k.take(), 1)
		time.Sleep(time.Minute)
		l.Close()
		require.Equal(t, []string{deleted}, k.take(), "it does not stay any more")
	})
	synctest.Test(t, func(t *testing.T) { // a write fails: the next grant writes it, or the timer
		l, k, _, _ := newLabel(t)
		for range 2 {
			k.err = context.DeadlineExceeded
			l.Publish(10 * time.Minute)
			require.Len(t, k.take(), 1)
		}
		k.mu.Lock()
		k.err = nil
		k.mu.Unlock()
		time.Sleep(30 * time.Second)
		require.Equal(t, []string{"[set holdfast_client:{id} label ex 600]"}, k.take())
		time.Sleep(time.Hour)
		require.Empty(t, k.take())
	})
	synctest.Test(t, func(t *testing.T) { // Close comes before the write
		l, _, _, _ := newLabel(t)
		life, end := context.WithCancelCause(t.Context())
		l.cfg.Life = life
		var sent context.Context
		l.cfg.Within = func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			sent = ctx
			return context.WithTimeout(ctx, d)
		}
		l.Publish(10 * time.Minute)
		end(errs.ErrClosed)
		l.Close()
		require.NoError(t, l.cfg.Tasks.Wait(t.Context()))
		require.NoError(t, sent.Err())
	})
}

// TestLabelAtOthers: it is written at other clients' servers, too, and deleted there. Of the clients that served this one
// only those are remembered that are there.
func TestLabelAtOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, k, _, _ := newLabel(t)
		other, there, _, _ := newLabel(t)
		at := l.At(other.watch)
		require.Same(t, at, l.At(other.watch))
		at.Publish(0)
		require.Equal(t, []string{written}, there.take())
		require.Empty(t, k.take())
		for range 100 {
			one, _, _, _ := newLabel(t)
			life, end := context.WithCancelCause(t.Context())
			one.watch.cfg.Life = life
			l.At(one.watch)
			end(errs.ErrClosed)
		}
		require.Len(t, l.beside, 2)
		l.Close()
		require.Equal(t, []string{deleted}, there.take())
		require.NoError(t, l.cfg.Tasks.Wait(t.Context()))
	})
}

// TestLabelRefused: it is tried again, and told once.
func TestLabelRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, k, busy, log := newLabel(t)
		busy.Store(true)
		k.err = context.DeadlineExceeded
		l.Publish(0)
		time.Sleep(91 * time.Second)
		require.Len(t, k.take(), 4)
		require.EqualValues(t, 1, log.n.Load())
		l.Close()
		require.Equal(t, []string{deleted}, k.take(), "it may have been written all the same")
	})
}

// TestLabelAtClose: what Close interrupts is no failure. The control is TestLabelRefused.
func TestLabelAtClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, k, _, log := newLabel(t)
		life, end := context.WithCancelCause(t.Context())
		l.cfg.Life, k.err = life, context.Canceled
		end(errs.ErrClosed) // and close comes a moment later
		l.Publish(0)
		require.Len(t, k.take(), 1)
		l.Close()
		require.NoError(t, l.cfg.Tasks.Wait(t.Context()))
		require.Zero(t, log.n.Load())
	})
}

// TestNoLabel: nothing is written of a client without one, and nothing deleted of one that wrote none.
func TestNoLabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none *Label
		none.Publish(0)
		require.Nil(t, none.At(nil))
		none.Close()
		l, k, _, _ := newLabel(t)
		l.Close()
		require.Empty(t, k.take())
	})
}
