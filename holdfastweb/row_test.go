package holdfastweb

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
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
