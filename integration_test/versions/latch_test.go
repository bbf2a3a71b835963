package versions_test

import (
	"fmt"
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

// TestLatch: both versions count, what they count adds up, and both wait. When it is open this is said where they
// listen. TestLatchControl shows that this message lets a waiter in. (A waiter looks every half minute, too.)
func TestLatch(t *testing.T) {
	t.Parallel()
	eachWay(t, []string{"latch"}, func(t *testing.T, at place, _, one, other string) {
		t.Parallel()
		name, rdb := t.Name(), at.first(t)
		counting := []*process{asks(t, one, at[0], name), asks(t, other, at[0], name)}
		waiting := []*process{asks(t, one, at[0], name), asks(t, other, at[0], name)}
		counting[0].does("set 4")
		require.Equal(t, "set true", counting[0].says())
		counting[1].does("set 5")
		require.Equal(t, "set false", counting[1].says(), "it is set already")
		for _, p := range waiting {
			p.does("wait")
		}
		heard := overhear(t, rdb, name)
		for left := 3; left >= 0; left-- {
			require.False(t, anything(waiting), "open before all have counted")
			counting[left%2].does("count")
			require.Equal(t, fmt.Sprint("left ", left), counting[left%2].says())
		}
		select {
		case message := <-heard:
			require.Equal(t, opened, message.Payload)
		case <-time.After(patience):
			t.Fatal("nobody says that it is open")
		}
		for i, p := range counting {
			require.Equal(t, "open", waiting[i].says())
			p.does("wait")
			require.Equal(t, "open", p.says(), "and it is for whoever comes late")
			p.does("count")
			require.Equal(t, "left 0", p.says())
		}
	})
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
