package engine

import (
	"context"
	"errors"
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

func (k *taken) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (k *taken) take() []string {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.commands
	k.commands = nil
	return list
}

// logged counts records.
type logged struct {
	slog.Handler
	n atomic.Int64
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }

func (l *logged) Handle(context.Context, slog.Record) error {
	l.n.Add(1)
	return nil
}

func newPresence(t *testing.T) (p *presence, k *taken, busy *atomic.Bool, log *logged) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	k, busy, log = &taken{}, &atomic.Bool{}, &logged{Handler: slog.DiscardHandler}
	rdb.AddHook(k)
	return &presence{
		key: "key", label: "label", rdb: rdb, tasks: &task.Group{}, log: slog.New(log), life: context.Background(),
		budget: func() time.Duration { return time.Second }, every: 30 * time.Second, idle: func() bool { return !busy.Load() },
	}, k, busy, log
}

const (
	written = "[set key label ex 90]"
	deleted = "[del key]"
)

// TestLabelIsRenewed: it is written when there is reason to, at most every 30 s, for as long as the client or one
// that it serves has something, and then not any more.
func TestLabelIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, k, busy, _ := newPresence(t)
		busy.Store(true)
		require.Empty(t, k.take(), "nobody has asked for it")
		for range 100 {
			p.show()
		}
		require.Equal(t, []string{written}, k.take())
		time.Sleep(61 * time.Second)
		require.Equal(t, []string{written, written}, k.take())

		busy.Store(false)
		var idle atomic.Bool
		p.follow("lead", lead{idle: idle.Load})
		time.Sleep(30 * time.Second)
		require.Equal(t, []string{written}, k.take(), "the one that it serves has something")
		idle.Store(true)
		time.Sleep(time.Hour)
		require.Empty(t, k.take(), "an idle client sends nothing")
		p.show()
		require.Equal(t, []string{written}, k.take())
		time.Sleep(time.Hour)
		require.Empty(t, k.take())
		p.close()
		require.Equal(t, []string{deleted}, k.take())
		p.show()
		time.Sleep(time.Hour)
		require.Empty(t, k.take(), "a closed one writes nothing")
		require.NoError(t, p.tasks.Wait(t.Context()))
	})
}

// TestLeadsAreForgotten: of the clients that a master's client has served only those are remembered that are there.
func TestLeadsAreForgotten(t *testing.T) {
	p, _, _, _ := newPresence(t)
	idle := func() bool { return true }
	p.follow("stays", lead{idle, make(chan struct{})})
	for n := range 100 {
		gone := make(chan struct{})
		p.follow(n, lead{idle, gone})
		close(gone)
	}
	p.follow("last", lead{idle, make(chan struct{})})
	require.Len(t, p.leads, 2)
}

// TestLabelRefused: it is tried again, and told once.
func TestLabelRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, k, busy, log := newPresence(t)
		busy.Store(true)
		k.err = context.DeadlineExceeded
		p.show()
		time.Sleep(91 * time.Second)
		require.Len(t, k.take(), 4)
		require.EqualValues(t, 1, log.n.Load())
		p.close()
		require.Equal(t, []string{deleted}, k.take(), "it may have been written all the same")
	})
}

// TestLabelAtClose: what Close interrupts is no failure. The control is TestLabelRefused.
func TestLabelAtClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, k, _, log := newPresence(t)
		life, end := context.WithCancelCause(t.Context())
		p.life, k.err = life, context.Canceled
		end(errs.ErrClosed) // and close comes a moment later
		p.show()
		require.Len(t, k.take(), 1)
		p.close()
		require.NoError(t, p.tasks.Wait(t.Context()))
		require.Zero(t, log.n.Load())
	})
}

// TestNoLabel: nothing is written of a client without one, and nothing deleted of one that wrote none.
func TestNoLabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none *presence
		none.show()
		none.follow(t, lead{})
		none.close()
		p, k, _, _ := newPresence(t)
		p.close()
		require.Empty(t, k.take())
	})
}

// TestCloseTwiceInABubble: who waits for another's Close waits on a channel, so that time passes in a
// bubble meanwhile. With a mutex the first one would never end.
func TestCloseTwiceInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("nobody is there")
		}})
		defer rdb.Close()
		c, err := New(rdb, nil)
		require.NoError(t, err)
		c.Tasks().Go(func() { time.Sleep(time.Second) })
		ends := make(chan error, 2)
		for range 2 {
			go func() { ends <- c.Close(context.Background()) }()
		}
		require.NoError(t, <-ends)
		require.NoError(t, <-ends)
	})
}
