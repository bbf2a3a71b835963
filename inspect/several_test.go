package inspect_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// testSeveral: each name is told as if it was asked for alone, in the order of the question.
func testSeveral(t *testing.T, rdb redis.UniversalClient) {
	ctx, c, i := t.Context(), newClient(t, rdb, nil), newInspector(t, rdb, nil)
	var asked []string
	for n := range 250 { // more than travel at once, in several slots
		name := fmt.Sprintf("lock:%d", n*7%250)
		asked = append(asked, name)
		if n%3 == 0 {
			hold(t, rlock.New(c, name))
		}
	}
	asked = append(asked, "a}b", asked[0])
	locks, err := i.Several(ctx, asked)
	require.NoError(t, err)
	require.Equal(t, asked, names(locks))
	for n, l := range locks {
		if asked[n] == "a}b" {
			require.Equal(t, []inspect.Trouble{inspect.Unreadable}, troubles(l))
			continue
		}
		alone := look(t, i, l.Name)
		require.Equal(t, alone, withTimesOf(l, alone), l.Name)
		require.Equal(t, n%3 == 0 || n == 251, l.Held(), l.Name)
	}
	locks, err = i.Several(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, locks)
}

// TestSeveralTrips: a hundred names are one round trip, and who their clients are is another.
func TestSeveralTrips(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	i, c := newInspector(t, rdb, nil), newClient(t, rdb, nil)
	var asked []string
	for n := range 100 {
		asked = append(asked, fmt.Sprint("lock:", n))
		hold(t, rlock.New(c, asked[n]))
	}
	_, err := i.Several(t.Context(), asked) // the server has the script then
	require.NoError(t, err)
	hook := &sent{}
	rdb.AddHook(redistest.Around(hook.note))
	_, err = i.Several(t.Context(), asked)
	require.NoError(t, err)
	require.Equal(t, 2, hook.trips)
	require.Len(t, hook.commands, 101)
}
