package engine

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// released is an entry that the server releases when it is asked to keep it.
type released struct{ Entry }

func (released) KeepOrRelease(context.Context, remote.SharedBudget, time.Duration, int) remote.Outcome {
	return remote.Outcome{Reply: lua.NewReply(lua.Denied, int64(1))}
}

func (released) UndoIfNeeded(func() time.Duration, time.Duration) {}
func (released) tainted() bool                                    { return false }

// TestLostWhileAsking: the lease ends while the server is asked who else wants the lock. The watchdog has dropped the lease,
// and has not ended the grant yet. Unlock says that the lock was lost, and not that somebody had unlocked it before.
func TestLostWhileAsking(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nothing is sent
	c, err := New(rdb, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()); _ = rdb.Close() })
	b := &Lock{Asker: Asker{Client: c}, Dog: watchdog.New(watchdog.Config{})}
	g := newGrant(newOwner(), "id", &Acquisition{base: b, want: new(Settings)})
	g.entry = released{}
	g.serverLease = &ServerLease{base: b, Entry: g.entry}
	ended, err := g.keepOrRelease(t.Context(), remote.SharedBudget{})
	require.True(t, ended)
	require.ErrorIs(t, err, errs.ErrLost)
	require.NotErrorIs(t, err, errs.ErrReleased)
}

// TestHeadStart: a far client gets one and a half round trips, a near one nothing. What took long once is not a distance.
func TestHeadStart(t *testing.T) {
	a := &Acquisition{base: &Lock{Asker: Asker{Client: &Client{}}}}
	way := &a.base.Client.way
	require.Zero(t, a.headStart(), "it is not known yet")
	way.took(50 * time.Millisecond)
	require.Equal(t, 75*time.Millisecond, a.headStart())
	way.took(20 * time.Millisecond)
	require.Equal(t, 30*time.Millisecond, a.headStart())
	way.took(28 * time.Millisecond)
	require.Equal(t, 21*time.Millisecond, way.usual())
	way.took(time.Millisecond)
	require.Zero(t, a.headStart(), "as near as anybody")
	way.took(time.Millisecond + 160*time.Microsecond)
	require.Zero(t, a.headStart())
	for range 100 {
		way.took(time.Second)
	}
	require.Equal(t, longestYield, a.headStart())
	a.once = true
	require.Zero(t, a.headStart(), "it does not come again")
}

// TestGuestsAreMany: however many locks are Redisson's, a bounded number is remembered, and a repeat pushes none out.
func TestGuestsAreMany(t *testing.T) {
	const redisson = "3c4cbb6c-1b2f-4a6c-9e3b-6e6f3c1e2a11:17"
	var s rivals
	key := func(i int) queue.Key { return queue.Key{Kind: "rlock", Name: strconv.Itoa(i)} }
	for i := range maxRivals {
		s.note(key(i), redisson)
	}
	s.note(key(7), redisson)
	for i := range maxRivals {
		require.True(t, s.seenRecently(key(i), time.Now()), "%d", i)
	}
	s.note(key(maxRivals), redisson)
	require.LessOrEqual(t, len(s.seen), maxRivals)
	require.True(t, s.seenRecently(key(maxRivals), time.Now()))
	s.note(key(0), "3c4cbb6c-1b2f-4a6c-9e3b-6e6f3c1e2a11:h17")
	require.False(t, s.seenRecently(key(0), time.Now()), "one of ours is no guest")
}

// TestGuestTurn: beside a client of Redisson a turn is one grant or two; among clients of this library it is a time.
func TestGuestTurn(t *testing.T) {
	b := &Lock{Asker: Asker{Client: new(Client)}, Key: queue.Key{Kind: "rlock", Name: "a"}}
	turn := func(first uint64) *ServerLease {
		one := &ServerLease{base: b, Entry: &serverEntry{}}
		one.begin(nil, first, 200)
		return one
	}
	alone := turn(1)
	alone.used = 50
	require.True(t, alone.fresh())
	alone.look = sinceStart()
	require.False(t, alone.fresh(), "its time is over")

	b.Client.rivals.note(b.Key, "3c4cbb6c-1b2f-4a6c-9e3b-6e6f3c1e2a11:17")
	require.False(t, turn(1).fresh(), "one grant is all")
	beside := turn(2)
	require.True(t, beside.fresh(), "one grant of two")
	beside.used++
	require.False(t, beside.fresh(), "two")
}

// stand is what a hold stands on in a test.
type stand struct {
	name    string
	over    bool  // the clock says so, and nobody else has
	refusal error // of unlock
	forgone bool  // forgo was called
	left    time.Duration
	mu      *sync.Mutex
	log     *[]string // names that were unlocked; guarded by mu
}

var _ holdOwner = (*stand)(nil)

func (s *stand) ownerID() string                             { return "owner of " + s.name }
func (s *stand) of() queue.Key                               { return queue.Key{Kind: "stand", Name: s.name} }
func (s *stand) deadline() time.Time                         { return time.Now().Add(s.left) }
func (s *stand) extend(context.Context, time.Duration) error { return nil }

func (s *stand) tell(ctx context.Context, _ *Hold) context.Context { return ctx }

func (s *stand) unlock(_ context.Context, _ remote.SharedBudget, h *Hold) error {
	s.mu.Lock()
	*s.log = append(*s.log, s.name)
	s.mu.Unlock()
	_ = h.end(errs.ErrReleased)
	return s.refusal
}

func (s *stand) newContext(h *Hold) (*holdContext, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(h.parent)
	return &holdContext{ctx, h}, cancel
}

func (s *stand) combiningClient() *Client { return nil }

func (s *stand) forgo(*Hold) { s.forgone = true }

func (s *stand) releasesOnError() bool { return false }

func (s *stand) wanted() <-chan struct{} { return nil }

func (s *stand) look(h *Hold) {
	if s.over {
		_ = h.end(errs.ErrLost)
	}
}

// stands makes two stands, their holds, and the joined one.
func stands(t *testing.T) (a, b *stand, log *[]string, joined *Hold) {
	log = new([]string)
	mu := new(sync.Mutex)
	a, b = &stand{name: "a", mu: mu, log: log, left: time.Hour}, &stand{name: "b", mu: mu, log: log, left: time.Minute}
	return a, b, log, Join("pair", "a b", &Hold{on: a, parent: t.Context(), token: 7, depth: 1},
		&Hold{on: b, parent: t.Context(), token: 5, depth: 2})
}

// TestJoinedLooksAtAllClocks: who asks the context learns that the time of one hold is over, before anybody else has said so.
func TestJoinedLooksAtAllClocks(t *testing.T) {
	for i := range 2 {
		a, b, _, h := stands(t)
		ctx := h.Context()
		require.NoError(t, ctx.Err())
		[]*stand{a, b}[i].over = true
		require.Error(t, ctx.Err())
		require.ErrorIs(t, context.Cause(ctx), errs.ErrLost)
		require.EqualError(t, context.Cause(ctx), `stand "`+[]string{"a", "b"}[i]+`": lock lost`)
	}
}

// TestJoinedUnlocksAll: all are given back, whichever fail, and the error names those.
func TestJoinedUnlocksAll(t *testing.T) {
	a, b, log, h := stands(t)
	require.LessOrEqual(t, time.Until(h.Deadline()), time.Minute, "the earliest")
	b.refusal = errors.New("why")
	err := h.Unlock(t.Context())
	require.ElementsMatch(t, []string{"b", "a"}, *log)
	require.EqualError(t, err, `stand "b": why`)
	require.Equal(t, uint64(7), h.Token(), "the greatest")
	require.Equal(t, 1, h.Count(), "the least")
	require.Equal(t, errs.ErrReleased, h.Unlock(t.Context()))
	require.Len(t, *log, 2)
	require.Equal(t, a.ownerID(), h.Owner())
	kind, name := h.Of()
	require.Equal(t, []string{"pair", "a b"}, []string{kind, name})
}

// TestJoinedOfJoined: a joined hold is one that can be joined.
func TestJoinedOfJoined(t *testing.T) {
	_, b, log, inner := stands(t)
	h := Join("more", "a b c", inner, &Hold{on: &stand{name: "c", mu: b.mu, log: log}, parent: t.Context()})
	ctx := h.Context()
	b.over = true
	require.Error(t, ctx.Err())
	require.EqualError(t, context.Cause(ctx), `stand "b": lock lost`, "the name of the one, and not of what joins it")
	require.ErrorIs(t, h.Unlock(t.Context()), nil)
	require.ElementsMatch(t, []string{"c", "b", "a"}, *log)
}

// TestJoinedOfHoldsApart: the end of the context of any one's Lock call ends its context, and not the hold.
func TestJoinedOfHoldsApart(t *testing.T) {
	a, b, _, _ := stands(t)
	apart, cancel := context.WithCancel(t.Context())
	h := Join("pair", "a b", &Hold{on: a, parent: t.Context()}, &Hold{on: b, parent: apart})
	ctx := h.Context()
	cancel()
	require.Eventually(t, func() bool { return ctx.Err() != nil }, time.Minute, time.Millisecond)
	require.ErrorIs(t, context.Cause(ctx), context.Canceled)
	require.NotZero(t, h.Deadline())
	require.NoError(t, h.Unlock(t.Context()))
}

func TestMain(m *testing.M) { leak.Main(m) }

// TestNoteKeepsTheLastQuestion: the answer to the question that was sent last counts, not the answer that came last.
func TestNoteKeepsTheLastQuestion(t *testing.T) {
	var n Note
	first := time.Now()
	second := first.Add(time.Nanosecond)
	says := func(owner string) remote.Blocker { return remote.Blocker{Left: time.Second, Owner: owner} }
	n.Refused(second, says("new"))
	n.Refused(first, says("old"))
	require.Equal(t, "new", n.Said().Owner)
	n.Free(first)
	require.Equal(t, "new", n.Said().Owner)
	n.Free(second)
	require.Zero(t, n.Said())
	n.Refused(first, says("old"))
	require.Zero(t, n.Said())
}
