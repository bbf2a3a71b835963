package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestMain makes workers of this binary as main does of the program, with two locks more, which do
// not lock.
func TestMain(m *testing.M) {
	contenders = append(contenders, contender{name: "broken", group: own, open: openBroken},
		contender{name: "minority", group: own, open: openMinority, needs: needMasters},
		contender{name: "broken-writer", group: own, kind: aReadWrite, open: openBroken},
		contender{name: "broken-semaphore", group: own, kind: aSemaphore, open: openBroken},
		contender{name: "broken-latch", group: own, kind: aLatch, open: openBroken})
	if len(os.Args) > 1 && os.Args[1] == workerArg {
		os.Exit(workerMain())
	}
	redistest.Main(m)
}

// openMinority is the floor on several masters that is content with two votes of five.
func openMinority(j job) (client, error) { return newQuorumFloor(j, 2), nil }

// brokenClient is the control: it lets everybody in and gives everybody the same token.
type brokenClient struct{}

func openBroken(job) (client, error) { return brokenClient{}, nil }

func (brokenClient) locker(context.Context, string) (locker, error) {
	return func(context.Context) (func() error, uint64, error) {
		return func() error { return nil }, 1, nil
	}, nil
}

// reader is [readable].
func (c brokenClient) reader(ctx context.Context, name string) (locker, error) {
	return c.locker(ctx, name)
}

func (brokenClient) set(context.Context, string, int) error { return nil }

func (brokenClient) countDown(context.Context, string) error { return nil }

func (brokenClient) wait(context.Context, string) error { return nil }

func (brokenClient) close() error { return nil }

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

// TestDistance: bytes arrive in order, and not before their time. What is sent at once does not take
// longer than one piece does.
func TestDistance(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, ln.Close()) }()
	got := make(chan string, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		buf := make([]byte, 6)
		for n := 0; n < len(buf); {
			m, err := c.Read(buf[n:])
			if err != nil {
				return
			}
			n += m
		}
		got <- string(buf)
	}()
	const oneWay = 20 * time.Millisecond
	d, err := newDistance(ln.Addr().String(), oneWay)
	require.NoError(t, err)
	defer d.close()
	c, err := net.Dial("tcp", d.addr())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	began := time.Now()
	for _, text := range []string{"ab", "cd", "ef"} {
		_, err = c.Write([]byte(text))
		require.NoError(t, err)
	}
	require.Equal(t, "abcdef", <-got)
	require.GreaterOrEqual(t, time.Since(began), oneWay)
}
