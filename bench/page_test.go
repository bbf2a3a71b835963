package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func testPage(t *testing.T) *page {
	p, err := createPage(filepath.Join(t.TempDir(), "page"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.close()) })
	return p
}

func TestTokensOutOfOrderAreCountedWithoutOverlap(t *testing.T) {
	p := testPage(t)
	me := newParticipant(0, 0)
	for _, token := range []uint64{1, 2, 2, 1, 3, 0} { // 0: the lock has none
		p.slot(0).enter(me, token)
		p.slot(0).leave(me)
	}
	require.Equal(t, safety{Entries: 6, Disorder: 2}, p.safety())
}

// Who is killed leaves itself inside; that is no overlap of the next one. Of anybody else it is.
func TestAHolderThatWasKilledIsNotMet(t *testing.T) {
	for condemned, overlaps := range map[int]int64{0: 0, 2: 1} {
		p := testPage(t)
		p.condemn(condemned)
		p.slot(0).enter(newParticipant(0, 0), 0)
		p.slot(0).enter(newParticipant(1, 0), 0)
		p.slot(0).leave(newParticipant(1, 0))
		require.Equal(t, overlaps, p.safety().Overlaps, condemned)
	}
}

func TestHandoversNameTheReleaser(t *testing.T) {
	p := testPage(t)
	a, b := newParticipant(0, 0), newParticipant(1, 0)
	require.Zero(t, p.slot(1).enter(a, 0))
	p.slot(1).leave(a)
	h := p.slot(1).enter(b, 0)
	require.Equal(t, a, h.from)
	require.LessOrEqual(t, h.at, now())
	require.Zero(t, p.slot(2).enter(a, 0), "each name has its own slot")
}

// Those who share may be inside together, so many at most, and nobody beside them who is alone.
func TestThoseWhoShareAreCounted(t *testing.T) {
	me := newParticipant(0, 0)
	for name, c := range map[string]struct {
		does func(s slot)
		want safety
	}{
		"two of two": {func(s slot) { s.share(2, 0); s.share(2, 0); s.unshare() }, safety{Entries: 2}},
		"three of two": {func(s slot) { s.share(2, 0); s.share(2, 0); s.share(2, 0) },
			safety{Entries: 3, Overlaps: 1}},
		"one after the other": {func(s slot) { s.share(1, 0); s.unshare(); s.share(1, 0) }, safety{Entries: 2}},
		"a reader behind a writer": {func(s slot) { s.enter(me, 5); s.leave(me); s.share(9, 5) },
			safety{Entries: 2}},
		"a reader beside a writer": {func(s slot) { s.enter(me, 5); s.share(9, 5) }, safety{Entries: 2, Overlaps: 1}},
		"a writer beside a reader": {func(s slot) { s.share(9, 5); s.enter(me, 6) }, safety{Entries: 2, Overlaps: 1}},
		"a token from before the last write": {func(s slot) { s.enter(me, 5); s.leave(me); s.share(9, 4) },
			safety{Entries: 2, Disorder: 1}},
	} {
		p := testPage(t)
		c.does(p.slot(0))
		require.Equal(t, c.want, p.safety(), name)
	}
}
