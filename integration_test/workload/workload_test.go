package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// TestDeadlineBesidePause: a deadline is read by two clocks, one after the other, and a pause between them does not
// change it.
func TestDeadlineBesidePause(t *testing.T) {
	c, err := holdfast.New(redistest.Shared(t).Client(t), nil)
	require.NoError(t, err)
	redistest.CloseAtEnd(t, c)
	h, err := rlock.New(c, "workload:deadline").Lock(t.Context())
	require.NoError(t, err)
	start, read := time.Now(), 0
	a := New(Config{Now: func() int64 {
		if read++; read == 1 { // the process is paused right afterwards, as far as can be told
			return int64(time.Since(start) - time.Minute)
		}
		return int64(time.Since(start))
	}}, nil, 0, 0, nil)
	require.WithinDuration(t, h.Deadline(), start.Add(time.Duration(a.until(h))), 10*time.Second)
	require.Greater(t, read, 2)
	require.NoError(t, h.Unlock(t.Context()))
}
