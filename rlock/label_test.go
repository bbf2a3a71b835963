package rlock_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// spoken notes the commands with the key of a label.
type spoken struct {
	redis.Hook

	mu   sync.Mutex // guards all
	said []string
}

func (s *spoken) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *spoken) note(cmd redis.Cmder) {
	if args := fmt.Sprint(cmd.Args()...); strings.Contains(args, "holdfast_client") {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.said = append(s.said, cmd.Name())
	}
}

func (s *spoken) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.note(cmd)
		return next(ctx, cmd)
	}
}

func (s *spoken) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			s.note(cmd)
		}
		return next(ctx, cmds)
	}
}

func (s *spoken) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said
}

// TestDefaultLabel: a client that was given no label names its process, and knows by whom it is refused. That takes one
// SET of a holder, one GET of a refused client, and one DEL of those that have written.
func TestDefaultLabel(t *testing.T) {
	t.Parallel()
	process := fmt.Sprintf("rlock.test[%d]", os.Getpid())
	type one struct {
		*holdfast.Client
		spoken
	}
	open := func(opts *holdfast.Options) *one {
		rdb, o := redistest.Shared(t).Client(t), new(one)
		rdb.AddHook(&o.spoken)
		var err error
		o.Client, err = holdfast.New(rdb, opts)
		require.NoError(t, err)
		redistest.CloseAtEnd(t, o.Client)
		return o
	}
	holder, other, silent := open(nil), open(&holdfast.Options{}), open(&holdfast.Options{Label: holdfast.NoLabel})
	require.Contains(t, holder.String(), process)
	require.Equal(t, "client "+silent.ID(), silent.String())

	rdb, name := redistest.Shared(t).Client(t), uniqueName(t)
	h := lock(t, rlock.New(holder.Client, name))
	label := func(c *one) string { return rdb.Get(t.Context(), keys.Label(c.ID())).Val() }
	eventually(t, "the label is written", func() bool { return strings.HasSuffix(label(holder), process) })
	eventually(t, "it is in the error of a refused client", func() bool {
		return strings.Contains(refused(t.Context(), t, rlock.New(other.Client, name).TryLock).Error(), h.Owner()+" ("+label(holder)+")")
	})
	require.NotContains(t, refused(t.Context(), t, rlock.New(silent.Client, name).TryLock).Error(), process)
	unlock(t, h)
	for range 10 {
		unlock(t, lock(t, rlock.New(holder.Client, name)))
	}
	unlock(t, lock(t, rlock.New(silent.Client, name)))
	for _, c := range []*one{holder, other, silent} {
		require.NoError(t, c.Close(t.Context()))
		require.Empty(t, label(c))
	}
	require.Equal(t, []string{"set", "del"}, slices.Compact(holder.list()), "one SET in 30 s")
	require.Equal(t, []string{"get"}, other.list(), "it neither held nor waited")
	require.Empty(t, silent.list())
}

// TestPanicAtALabel: a hook that panics at a command about labels ends neither the process nor a lock, and the client logs it.
func TestPanicAtALabel(t *testing.T) {
	t.Parallel()
	rdb, name := redistest.Shared(t).Client(t), uniqueName(t)
	rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		if slices.Contains([]string{"get", "set", "del"}, cmds[0].Name()) {
			panic("at " + cmds[0].Name())
		}
		return send()
	}))
	var logged atomic.Int64
	c, err := holdfast.New(rdb, &holdfast.Options{Logger: slog.New(handler{slog.DiscardHandler, func() { logged.Add(1) }})})
	require.NoError(t, err)
	other, _ := shared(t, nil)
	h := lock(t, rlock.New(other, name))
	eventually(t, "the other's label is asked for", func() bool {
		refused(t.Context(), t, rlock.New(c, name).TryLock)
		return logged.Load() > 0
	})
	unlock(t, h)
	before := logged.Load()
	unlock(t, lock(t, rlock.New(c, name)))
	eventually(t, "its own is to be written", func() bool { return logged.Load() > before })
	require.NoError(t, c.Close(t.Context()))
}
