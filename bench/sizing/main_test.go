//go:build unix

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// TestSizing finds, for a few, what holds for any number: two keys a hold, joint renewals, one subscription a client and name.
func TestSizing(t *testing.T) {
	s := settings{
		server: redistest.Start(t).Addr(), holds: 100, waiters: 40, lease: 3 * time.Second, window: 1500 * time.Millisecond,
		clients: []int{1, 4}, crowds: []crowd{{false, 2, 4}, {true, 2, 4}},
	}
	var out strings.Builder
	require.NoError(t, run(t.Context(), s, &out))
	t.Log("\n" + out.String())
	rows := table(out.String())
	require.Len(t, rows, 4)
	for _, row := range rows[:2] {
		require.Equal(t, "2.0", row[1], "keys for each hold: the hash and the token")
		require.NotEqual(t, "0.0", row[4], "it was renewed")
	}
	for _, row := range rows[2:] {
		require.Equal(t, "8", row[2], "subscriptions: one for each client and name")
	}
}

// table is the cells of the rows that have figures.
func table(text string) (rows [][]string) {
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) == 13 && !strings.Contains(line, "goroutines") {
			rows = append(rows, cells)
		}
	}
	return rows
}

// A server that is not there is an error, and no table of nothing.
func TestNoServer(t *testing.T) {
	var out strings.Builder
	require.Error(t, run(t.Context(), settings{server: "127.0.0.1:1"}, &out))
	require.Empty(t, out.String())
}
