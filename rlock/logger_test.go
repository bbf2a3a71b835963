package rlock_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestLossWithoutALogger: a client that was given no Logger tells a loss to the program's default logger.
func TestLossWithoutALogger(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	for _, opts := range []*holdfast.Options{nil, {}, {Logger: slog.New(slog.DiscardHandler)}} {
		said := new(bytes.Buffer)
		program := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(said, nil)))
		c, err := holdfast.New(rdb, opts)
		slog.SetDefault(program)
		require.NoError(t, err)
		name := uniqueName(t)
		hold := lock(t, rlock.New(c, name))
		require.NoError(t, rdb.Del(t.Context(), name).Err())
		require.ErrorIs(t, hold.Extend(t.Context(), holdfast.DefaultLease), holdfast.ErrLost)
		require.NoError(t, c.Close(t.Context()))
		if opts != nil && opts.Logger != nil {
			require.Empty(t, said.String())
			continue
		}
		require.Contains(t, said.String(), "level=WARN msg=\"lock lost\" kind=rlock name="+name)
	}
}
