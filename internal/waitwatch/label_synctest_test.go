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
			l.Publish()
		}
		require.Equal(t, []string{written}, k.take())
		time.Sleep(61 * time.Second)
		require.Equal(t, []string{written, written}, k.take())

		busy.Store(false)
		var idle atomic.Bool
		l.Follow("lead", idle.Load, nil)
		time.Sleep(30 * time.Second)
		require.Equal(t, []string{written}, k.take(), "the lead has something")
		idle.Store(true)
		time.Sleep(time.Hour)
		require.Empty(t, k.take(), "an idle client sends nothing")
		l.Publish()
		require.Equal(t, []string{written}, k.take())
		time.Sleep(time.Hour)
		require.Empty(t, k.take())
		l.Close()
		require.Equal(t, []string{deleted}, k.take())
		l.Publish()
		time.Sleep(time.Hour)
		require.Empty(t, k.take(), "a closed one writes nothing")
		require.NoError(t, l.cfg.Tasks.Wait(t.Context()))
	})
}

// TestLeadsAreForgotten: of the clients that a master's client has served only those are remembered that are there.
func TestLeadsAreForgotten(t *testing.T) {
	l, _, _, _ := newLabel(t)
	idle := func() bool { return true }
	l.Follow("stays", idle, make(chan struct{}))
	for n := range 100 {
		gone := make(chan struct{})
		l.Follow(n, idle, gone)
		close(gone)
	}
	l.Follow("last", idle, make(chan struct{}))
	require.Len(t, l.leads, 2)
}

// TestLabelRefused: it is tried again, and told once.
func TestLabelRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, k, busy, log := newLabel(t)
		busy.Store(true)
		k.err = context.DeadlineExceeded
		l.Publish()
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
		l.Publish()
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
		none.Publish()
		none.Follow(t, nil, nil)
		none.Close()
		l, k, _, _ := newLabel(t)
		l.Close()
		require.Empty(t, k.take())
	})
}
