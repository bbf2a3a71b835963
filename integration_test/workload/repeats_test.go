package workload

import (
	"io"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/lua"
)

// TestRepeats: a count-down is known to have been sent again if its answer was lost, also if the next one was
// not, and no other is.
func TestRepeats(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	repeats, lost := new(Repeats), new(atomic.Int64)
	rdb.AddHook(repeats.Hook())
	rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		err := send()
		if err == nil && runs(cmds[0].Args(), lua.LatchCount) && lost.Add(-1) >= 0 {
			cmds[0].SetErr(io.EOF)
			return io.EOF
		}
		return err
	}))
	c, err := holdfast.New(rdb, nil)
	require.NoError(t, err)
	redistest.CloseAtEnd(t, c)
	l := latch.New(c, "workload:repeats")
	_, err = l.Delete(t.Context()) // from before
	require.NoError(t, err)
	_, err = l.Set(t.Context(), 9)
	require.NoError(t, err)
	rec := history.NewRecorder(func() int64 { return 1 })
	counter := &Counter{New(Config{Repeats: repeats}, rec, 0, 0, nil)}
	for _, lose := range []int64{0, 1, 0, 2} {
		lost.Store(lose)
		require.True(t, counter.countDown(t.Context(), l))
	}
	var again []bool
	var left []int
	for _, o := range rec.Ops() {
		require.Equal(t, history.OK, o.Result, o.Error)
		again, left = append(again, o.Repeated), append(left, o.Depth)
	}
	require.Equal(t, []bool{false, true, false, true}, again)
	require.Equal(t, []int{8, 7, 6, 5}, left)
}
