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

// TestObserving takes a few turns: each measurement is a row; compare itself checks that each grant and end was observed.
func TestObserving(t *testing.T) {
	s := settings{server: redistest.Shared(t).Addr(), turns: 3, turn: 5 * time.Millisecond, goroutines: []int{1, 8}}
	var out strings.Builder
	require.NoError(t, run(t.Context(), s, &out))
	require.Contains(t, out.String(), "\n| 1 | ")
	require.Contains(t, out.String(), "\n| 8 | ")
}
