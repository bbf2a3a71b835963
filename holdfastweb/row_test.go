package holdfastweb

import (
	"context"
	"errors"
	"io"
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
			"connection listens for a release; this kind keeps no queue" + hidden},
		{inspect.Lock{Kind: inspect.Plain, Waiters: -1, Holders: redissons}, "0", "nobody listens for a release"},
		{inspect.Lock{Kind: inspect.Free, Waiters: -1}, "0", "nobody listens for a release"},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours}, "?", "not known" + hidden},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours, Listening: 1}, "~1",
			"connection listens for a release; readers that wait have no places" + hidden},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours, Listening: 3, Waiters: 1}, "~3",
			"connections listen for a release, 1 of them with a place; readers that wait have no places" + hidden},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours, Waiters: 1}, "1", "waits in the queue" + hidden},
		{inspect.Lock{Kind: inspect.Fair, Holders: ours, Waiters: 2}, "2", "wait in the queue"},
		{inspect.Lock{Kind: inspect.Plain, Waiters: -1, Holders: redissons, Listening: 2}, "~2",
			"connections listen for a release; this kind keeps no queue"},
		{inspect.Lock{Kind: inspect.Semaphore, Holders: ours}, "0", "nobody waits"},
	} {
		number, words := waiting(&c.lock)
		require.Equal(t, []string{c.number, c.words}, []string{number, words}, "%+v", c.lock)
	}
}

// TestFailed: pages of single locks say since when the list has had no answer, and why, or since when they have had none
// themselves; not what was before their last answer.
func TestFailed(t *testing.T) {
	p := newPoller(nil, nil, nil, &Options{})
	refused, long := errors.New("connection refused"), time.Now().Add(-time.Hour)
	first := p.failed(0, context.DeadlineExceeded)
	require.Equal(t, context.DeadlineExceeded, first.err)
	p.snap = &snapshot{down: map[int]outage{0: {since: long, err: refused}}}
	require.Equal(t, outage{since: long, err: refused}, p.failed(0, context.DeadlineExceeded))
	require.Equal(t, refused, p.failed(0, errBusy).err)
	require.Equal(t, outage{since: long, err: io.EOF}, p.failed(0, io.EOF))

	p.succeeded(0)
	again := p.failed(0, io.EOF)
	require.True(t, again.since.After(first.since))
	require.Equal(t, again, p.failed(0, io.EOF), "the time does not start anew")
	require.Equal(t, errBusy, p.failed(1, errBusy).err)
	require.NotContains(t, p.failing, 1, "other people's pages are no outage")

	p.snap = &snapshot{taken: time.Now()}
	require.True(t, p.failed(0, io.EOF).since.After(again.since), "the list had an answer meanwhile")
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
