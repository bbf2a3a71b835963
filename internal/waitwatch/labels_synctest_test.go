package waitwatch

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// asks counts how many of some clients are asked for.
func (ls *labels) asks(from, to int) (n int) {
	for i := from; i < to; i++ {
		if _, ask := ls.get(fmt.Sprint(i)); ask {
			n++
		}
	}
	return n
}

// TestReadsAreBounded: a client that is refused by a thousand others reads thirty labels in a minute, remembers what it
// has read, and does not remember more than a few hundred.
func TestReadsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ls labels
		require.Equal(t, mostReads, ls.asks(0, 1000))
		ls.learn("7", "label")
		ls.learn("999", "not asked for")
		time.Sleep(time.Minute)
		require.Equal(t, mostReads, ls.asks(2000, 3000))
		text, ask := ls.get("7")
		require.Equal(t, "label", text)
		require.False(t, ask)
		require.Len(t, ls.of, 2*mostReads)
		for i := range 100 {
			time.Sleep(time.Minute)
			ls.asks(3000+100*i, 3100+100*i)
		}
		require.Len(t, ls.of, mostLabels)
	})
}

// TestMissingLabelIsReadAgain: a label that was not there is asked for again ever more seldom: once a minute in the end.
func TestMissingLabelIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ls labels
		begin := time.Now()
		var at []int
		for time.Since(begin) < 5*time.Minute {
			if _, ask := ls.get("redisson's"); ask {
				at = append(at, int(time.Since(begin).Seconds()))
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, []int{0, 1, 3, 7, 15, 31, 63, 127, 191, 255}, at)
	})
}

// TestDeniedLabels: a client that may not read labels asks for none any more, and keeps those that it knows.
func TestDeniedLabels(t *testing.T) {
	var ls labels
	require.Equal(t, 2, ls.asks(0, 2))
	ls.learn("0", "label")
	ls.deny()
	require.Zero(t, ls.asks(0, 10))
	text, _ := ls.get("0")
	require.Equal(t, "label", text)
}

// denied is what a server says to a user without a permission.
type denied struct{ error }

func (denied) RedisError() {}

// TestDefaultLabelDenied: a client that nobody gave a label asks once, warns of nothing, and reads no labels either. One
// that was given a label goes on asking. Other failures of the default label are no warnings, but it is tried again.
func TestDefaultLabelDenied(t *testing.T) {
	for _, c := range []struct {
		byDefault bool
		err       error
		writes    int
		warned    int64
		deleted   []string
		asks      int
	}{
		{true, denied{errors.New("NOPERM this user has no permissions")}, 1, 0, nil, 0},
		{false, denied{errors.New("NOPERM this user has no permissions")}, 4, 1, []string{deleted}, 1},
		{true, denied{errors.New("OOM command not allowed")}, 4, 0, []string{deleted}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, k, busy, log := newLabel(t)
			l.cfg.Default, k.err = c.byDefault, c.err
			busy.Store(true)
			l.Publish(0)
			time.Sleep(91 * time.Second)
			l.Publish(0)
			require.Len(t, k.take(), c.writes)
			require.Equal(t, c.warned, log.warnings.Load())
			require.EqualValues(t, 1, log.n.Load())
			require.Equal(t, c.asks, l.watch.labels.asks(0, 1))
			l.Close()
			require.Equal(t, c.deleted, k.take())
			require.NoError(t, l.cfg.Tasks.Wait(t.Context()))
		})
	}
}
