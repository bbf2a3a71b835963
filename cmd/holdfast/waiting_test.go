package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
)

// TestWaiting: a number is shown only where it is known. Of those who wait inside the holder's process Redis knows nothing.
func TestWaiting(t *testing.T) {
	ours, redissons := []inspect.Holder{{Owner: "ours"}}, []inspect.Holder{{Owner: "redisson's", Redisson: true}}
	const hidden = "waiters inside the holder's process are not counted"
	const readers = "readers that wait have no places"
	for _, c := range []struct {
		lock         inspect.Lock
		column, line string
	}{
		{inspect.Lock{Kind: inspect.Plain, Waiters: -1, Holders: ours}, "?", "not known; " + hidden},
		{inspect.Lock{Kind: inspect.Plain, Waiters: -1, Holders: ours, Listening: 2}, "~2",
			"2 listeners for a release; who that is, Redis does not know; " + hidden},
		{inspect.Lock{Kind: inspect.Plain, Waiters: -1, Holders: ours, Listening: -1}, "?", "not known: the server does not tell who listens; " + hidden},
		{inspect.Lock{Kind: inspect.Plain, Waiters: -1, Holders: redissons}, "0", ""},
		{inspect.Lock{Kind: inspect.Free, Waiters: -1}, "0", ""},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours}, "?", "not known; " + hidden},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours, Listening: 1}, "~1", "1 listener for a release; " + readers + "; " + hidden},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours, Waiters: 1, Listening: 4}, "~4", "4 listeners for a release, 1 of them with a place; " + readers + "; " + hidden},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours, Waiters: 2, Listening: 2}, "2", "2; " + hidden},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours, Waiters: 2, Listening: -1}, "2", "2; " + hidden},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: redissons, Listening: 3}, "~3", "3 listeners for a release; " + readers},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours, Waiters: 2, Listening: 1}, "2", "2; " + hidden},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: redissons}, "0", "0"},
		{inspect.Lock{Kind: inspect.Fair, Holders: ours, Waiters: 3}, "3", "3"},
		{inspect.Lock{Kind: inspect.Semaphore, Holders: ours}, "0", "0"},
		{inspect.Lock{Kind: inspect.Latch, Waiters: -1, Count: 1}, "0", ""},
		{inspect.Lock{Kind: inspect.Latch, Waiters: -1, Count: 1, Listening: 1}, "~1", "1 listener for a release; who that is, Redis does not know"},
	} {
		require.Equal(t, c.column, waiting(&c.lock), "%+v", c.lock)
		var out strings.Builder
		newSheet(&out, "").waiters(&c.lock)
		require.Equal(t, c.line, strings.TrimSpace(strings.TrimPrefix(strings.Join(strings.Fields(out.String()), " "), "waiting")))
		require.Equal(t, strings.Contains(c.line, hidden), documentOf(&c.lock).Uncounted)
	}

	const client = "11111111-2222-4333-8444-555555555555"
	for owner, known := range map[string]int{client + ":h1": -1, client + ":47": 0} { // the second one is Redisson's
		s := (&sight{kind: "rlock", holders: []holdfast.Holder{{Owner: owner}}}).honest()
		require.Equal(t, known, s.waiters, owner)
		var out strings.Builder
		require.NoError(t, lines(&out)(s.of("held", s.holders[0])))
		require.Equal(t, known < 0, strings.HasSuffix(strings.TrimSpace(out.String()), "?"), out.String())
	}
	require.Equal(t, 2, (&sight{waiters: 2, holders: []holdfast.Holder{{Owner: client + ":h1"}}}).honest().waiters)
}
