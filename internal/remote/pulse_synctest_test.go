package remote

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// inBubble runs what takes time in a bubble, where that is exact and free.
func inBubble(t *testing.T, name string, do func(t *testing.T, p *pulse)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { do(t, &pulse{}) })
	})
}

// TestPulse: a server is taken for prompt after a prompt answer, for a second, and while nothing is
// overdue.
func TestPulse(t *testing.T) {
	inBubble(t, "nothing is known at first", func(t *testing.T, p *pulse) {
		require.False(t, p.prompt())
		p.begin()
		require.False(t, p.prompt())
	})
	inBubble(t, "a prompt answer is good for a second", func(t *testing.T, p *pulse) {
		p.end(p.begin(), nil)
		require.True(t, p.prompt())
		time.Sleep(fresh - time.Nanosecond)
		require.True(t, p.prompt())
		time.Sleep(time.Nanosecond)
		require.False(t, p.prompt())
	})
	inBubble(t, "one that is overdue", func(t *testing.T, p *pulse) {
		p.end(p.begin(), nil)
		b := p.begin()
		time.Sleep(promptly - time.Nanosecond)
		require.True(t, p.prompt())
		time.Sleep(time.Nanosecond)
		require.False(t, p.prompt())
		p.end(p.begin(), nil)
		require.False(t, p.prompt(), "although another one was answered")
		p.end(b, nil)
		require.False(t, p.prompt(), "the last answer was late")
		p.end(p.begin(), nil)
		require.True(t, p.prompt())
	})
	inBubble(t, "no answer", func(t *testing.T, p *pulse) {
		p.end(p.begin(), nil)
		p.end(p.begin(), errors.New("reset"))
		require.False(t, p.prompt())
		p.end(p.begin(), nil)
		time.Sleep(doubtful - time.Nanosecond)
		p.end(p.begin(), nil)
		require.False(t, p.prompt(), "other connections may be dead too")
		time.Sleep(time.Nanosecond)
		require.True(t, p.prompt())
	})
}

// TestPulseKnowsTheOldest: commands end in any order, and what is left is known.
func TestPulseKnowsTheOldest(t *testing.T) {
	inBubble(t, "three", func(t *testing.T, p *pulse) {
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			var under [3]*beat
			for i := range under {
				under[i] = p.begin()
				time.Sleep(time.Nanosecond)
			}
			for n, i := range order {
				p.end(under[i], nil)
				var oldest *beat
				for j, b := range under {
					if oldest == nil && !slices.Contains(order[:n+1], j) {
						oldest = b
					}
				}
				require.Same(t, oldest, p.oldest, "%v, %d ended", order, n+1)
			}
			require.Nil(t, p.newest)
		}
	})
}
