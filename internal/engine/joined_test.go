package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

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

var _ possession = (*stand)(nil)

func (s *stand) ownerID() string                             { return "owner of " + s.name }
func (s *stand) of() queue.Key                               { return queue.Key{Kind: "stand", Name: s.name} }
func (s *stand) deadline() time.Time                         { return time.Now().Add(s.left) }
func (s *stand) extend(context.Context, time.Duration) error { return nil }

func (s *stand) tell(ctx context.Context, _ *Hold) context.Context { return ctx }

func (s *stand) unlock(_ context.Context, h *Hold) error {
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

func (s *stand) company() *Client { return nil }

func (s *stand) forgo() { s.forgone = true }

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

// TestJoinedLooksAtAllClocks: who asks the context learns that the time of one hold is over, before
// anybody else has said so.
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
