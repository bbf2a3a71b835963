package versions_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// opened is the message that a latch is open, or a lock free.
const opened = "0"

func asks(t *testing.T, program string, srv *redistest.Server, name string) *process {
	t.Helper()
	return start(t, program, srv.Addr(), "latch", name, patience.String(), "ask")
}

// TestLatch: one version waits for a latch, the other one counts it down, and says so where the first one listens.
// TestLatchControl shows that this message lets the waiter in. (A waiter looks every half minute, too.)
func TestLatch(t *testing.T) {
	t.Parallel()
	eachWay(t, []string{"latch"}, func(t *testing.T, at place, _, one, other string) {
		t.Parallel()
		name, rdb := t.Name(), at.first(t)
		a, b := asks(t, one, at[0], name), asks(t, other, at[0], name)
		a.does("set 3")
		require.Equal(t, "set true", a.says())
		b.does("set 5")
		require.Equal(t, "set false", b.says(), "it is set already")
		b.does("wait")
		heard := overhear(t, rdb, name)
		for left := 2; left >= 0; left-- {
			require.Empty(t, b.lines, "open before all have counted")
			a.does("count")
			require.Equal(t, fmt.Sprint("left ", left), a.says())
		}
		require.Equal(t, "open", b.says())
		select {
		case message := <-heard:
			require.Equal(t, opened, message.Payload)
		case <-time.After(patience):
			t.Fatal("nobody says that it is open")
		}
		a.does("wait")
		require.Equal(t, "open", a.says(), "and it is for whoever comes late")
		b.does("count")
		require.Equal(t, "left 0", b.says())
	})
}

// TestLatchAddsUp: what both versions count at the same time adds up, and opens the latch for those who wait in
// either of them, and not before.
func TestLatchAddsUp(t *testing.T) {
	t.Parallel()
	needsOld(t)
	const each = 50
	srv := redistest.Start(t)
	rdb, name, both := srv.Client(t), "sum", []string{programs.old, programs.present}
	var waiting, counting []*process
	for i, program := range both {
		p := asks(t, program, srv, name)
		p.does("set " + strconv.Itoa(2*each+1))
		require.Equal(t, fmt.Sprint("set ", i == 0), p.says())
		p.does("wait")
		waiting = append(waiting, p)
	}
	require.Eventually(t, func() bool { // both of them
		channels := rdb.PubSubChannels(t.Context(), "*"+name+"*").Val()
		return len(channels) == 1 && rdb.PubSubNumSub(t.Context(), channels...).Val()[channels[0]] == 2
	}, patience, 5*time.Millisecond)
	for _, program := range both {
		counting = append(counting, start(t, program, srv.Addr(), "latch", name, patience.String(), "storm", strconv.Itoa(each)))
	}
	seen := make(map[string]bool)
	for _, p := range counting {
		for line := range p.lines {
			require.False(t, seen[line], "%q twice", line)
			seen[line] = true
		}
	}
	require.Len(t, seen, 2*each)
	for left := 2 * each; left > 0; left-- {
		require.True(t, seen[fmt.Sprint("left ", left)], "nobody was told that %d are left", left)
	}
	require.Empty(t, waiting[0].lines, "one is left to count")
	require.Empty(t, waiting[1].lines, "one is left to count")
	last := asks(t, programs.old, srv, name)
	last.does("count")
	require.Equal(t, "left 0", last.says())
	require.Equal(t, "open", waiting[0].says())
	require.Equal(t, "open", waiting[1].says())
}

// TestLatchControl: who is not told that a latch is open does not notice, in either version, and the message
// is what tells.
func TestLatchControl(t *testing.T) {
	t.Parallel()
	needsOld(t)
	for name, program := range map[string]string{"old": programs.old, "new": programs.present} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			p := asks(t, program, srv, name)
			p.does("set 1")
			require.Equal(t, "set true", p.says())
			asked := srv.CommandCalls(t)["get"]
			p.does("wait")
			hearsOnly(t, srv, p, name, "get", asked+2) // it looks once more when it listens, which would find the latch open
			require.Equal(t, "open", p.says())
		})
	}
}
