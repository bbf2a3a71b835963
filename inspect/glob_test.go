package inspect_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestGlob: a pattern means here what it means to Redis.
func TestGlob(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	ctx := context.Background()
	words := []string{"a", "ab", "abc", "a*c", "a/c", "a[c", "a\\c", "^", "-", "b", "ba", "aXbXc", "aab", "]", "é"}
	for _, key := range words {
		require.NoError(t, rdb.Set(ctx, key, 1, 0).Err())
	}
	for _, pattern := range []string{
		"*", "a*", "*c", "a*c", "a?c", "a??", "?", "??", "[ab]", "[a-c]", "[c-a]", "[^a]", "a[*]c", "a\\*c", "a\\[c", "a\\\\c", "[\\]]", "[", "[ab",
		"a*b*c", "**a**", "\\a", "[^-]", "a[b-", "*[bc]", "ab\\", "é", "", "x", "[]", "[^]", "a*b*b",
	} {
		if pattern == "" {
			continue // KEYS takes it for the empty name, and here it is all
		}
		want, err := rdb.Keys(ctx, pattern).Result()
		require.NoError(t, err)
		var got []string
		for _, word := range words {
			if inspect.Glob(pattern, word) {
				got = append(got, word)
			}
		}
		require.ElementsMatch(t, want, got, "%q", pattern)
	}
	require.True(t, inspect.Glob("", "x"))
}

// TestSeen: what was told lately is not told again, and what is remembered is bounded.
func TestSeen(t *testing.T) {
	require.Equal(t, []bool{true, false, true, false, false}, inspect.First(10, "a", "a", "b", "a", "b"))
	require.Equal(t, []bool{true, true, true, false, true, true, true}, inspect.First(2, "a", "b", "c", "b", "d", "e", "a"), "a is long ago")
}
