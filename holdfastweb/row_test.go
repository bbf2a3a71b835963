package holdfastweb

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/grantrate"
)

// TestWaiting: the page does not say that nobody waits where somebody may wait inside the holder's process.
func TestWaiting(t *testing.T) {
	ours, redissons := []inspect.Holder{{}}, []inspect.Holder{{Redisson: true}}
	const hidden = "; waiters inside the holder's process are not counted"
	for _, c := range []struct {
		lock          inspect.Lock
		number, words string
	}{
		{inspect.Lock{Kind: inspect.Plain, Waiters: -1, Holders: ours}, "?", "not known" + hidden},
		{inspect.Lock{Kind: inspect.Plain, Waiters: -1, Holders: ours, Listening: 1}, "~1",
			"connections listen for a release; waiters of this kind have no places" + hidden},
		{inspect.Lock{Kind: inspect.Plain, Waiters: -1, Holders: redissons}, "0", "nobody listens for a release"},
		{inspect.Lock{Kind: inspect.Free, Waiters: -1}, "0", "nobody listens for a release"},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours}, "?", "not known" + hidden},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours, Listening: 1}, "~1", "connections listen for a release" + hidden},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours, Waiters: 1}, "1", "wait in the queue" + hidden},
		{inspect.Lock{Kind: inspect.Semaphore, Holders: ours}, "0", "nobody waits"},
	} {
		number, words := waiting(&c.lock)
		require.Equal(t, []string{c.number, c.words}, []string{number, words}, "%+v", c.lock)
	}
}

// TestGrantsOfLongAgo: a rate of looks that are too old is not shown. The control is the same rate, of looks just now.
func TestGrantsOfLongAgo(t *testing.T) {
	now, p := time.Now(), newPoller(nil, nil, nil, &Options{})
	k := key{0, "a"}
	for ago := range 3 {
		p.tracks.see(k, &inspect.Lock{At: now.Add(time.Duration(ago-3) * time.Second), Token: uint64(5 + ago)}, now) //nolint:gosec // small
	}
	e := &entry{key: k, seen: now, rate: p.tracks.see(k, &inspect.Lock{At: now, Token: 8}, now)}
	number, _ := e.grants(now.Add(time.Second))
	require.Equal(t, "1", number)
	number, words := e.grants(now.Add(grantrate.Span + time.Second))
	require.Equal(t, "–", number)
	require.Contains(t, words, "not known")

	p.tracks.forget(now.Add(time.Second))
	require.Len(t, p.tracks.of, 1)
	p.tracks.forget(now.Add(grantrate.Span + time.Second))
	require.Empty(t, p.tracks.of)
}
