package election_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// history is what happened in an election: who led, in the order in which they began, and what each
// observer was told.
type history struct {
	leaders  []election.Leader
	lasting  []uint64 // tokens of leaders that led until each observer had told of them
	perhaps  []string // values of those who gave up, and may have announced themselves before
	observed [][]election.Leader
}

// check tells what must not have happened: a token of two leaders, tokens that do not grow, somebody
// who was told and never led, an order that was not, and a leader that lasted and was not told.
func (h history) check() error {
	var errs []error
	led := make(map[uint64]election.Leader)
	var last uint64
	for _, l := range h.leaders {
		if _, twice := led[l.Token]; twice {
			errs = append(errs, fmt.Errorf("two leaders with token %d", l.Token))
		} else if l.Token < last {
			errs = append(errs, fmt.Errorf("token %d after %d", l.Token, last))
		}
		led[l.Token], last = l, l.Token
	}
	for i, told := range h.observed {
		var tokens []uint64
		for _, l := range told {
			if l == (election.Leader{}) {
				continue
			}
			known := led[l.Token]
			if (known.Owner != l.Owner || known.Value != l.Value) && !slices.Contains(h.perhaps, l.Value) {
				errs = append(errs, fmt.Errorf("observer %d was told of %v, which never led", i, l))
			}
			if n := len(tokens); n > 0 && tokens[n-1] >= l.Token {
				errs = append(errs, fmt.Errorf("observer %d was told of %d after %d", i, l.Token, tokens[n-1]))
			}
			tokens = append(tokens, l.Token)
		}
		for _, token := range h.lasting {
			if !slices.Contains(tokens, token) {
				errs = append(errs, fmt.Errorf("observer %d was not told of %d, which lasted", i, token))
			}
		}
	}
	return errors.Join(errs...)
}

// TestHistoryIsChecked: the checker refuses each kind of wrong history.
func TestHistoryIsChecked(t *testing.T) {
	one, two := election.Leader{Value: "1", Owner: "a", Token: 1}, election.Leader{Value: "2", Owner: "b", Token: 2}
	none := election.Leader{}
	both := []election.Leader{one, two}
	require.NoError(t, history{both, []uint64{2}, nil, [][]election.Leader{{none, one, none, two}, {two, none}}}.check())
	require.NoError(t, history{nil, nil, []string{"1"}, [][]election.Leader{{one}}}.check())
	for why, h := range map[string]history{
		"two leaders with token 1":         {[]election.Leader{one, one}, nil, nil, nil},
		"token 1 after 2":                  {[]election.Leader{two, one}, nil, nil, nil},
		"which never led":                  {both, nil, nil, [][]election.Leader{{{Value: "2", Owner: "a", Token: 1}}}},
		"observer 0 was told of 1 after 2": {both, nil, nil, [][]election.Leader{{two, one}}},
		"told of 2 after 2":                {both, nil, nil, [][]election.Leader{{two, none, two}}},
		"observer 1 was not told of 1":     {both, []uint64{1}, nil, [][]election.Leader{{one}, {two}}},
	} {
		require.ErrorContains(t, h.check(), why)
	}
}

// ballotBox is a history that is being made.
type ballotBox struct {
	mu sync.Mutex // guards the history
	history
	inside atomic.Int32
}

func (b *ballotBox) tell(i int, l election.Leader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.Remaining = 0
	b.observed[i] = append(b.observed[i], l)
}

// isKnown reports whether every observer was told of a token.
func (b *ballotBox) isKnown(token uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !slices.ContainsFunc(b.observed, func(told []election.Leader) bool {
		return !slices.ContainsFunc(told, func(l election.Leader) bool { return l.Token == token })
	})
}

// TestHistory: candidates of several clients come, lead, resign, give up, and are forced out, while
// others observe.
func TestHistory(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	name, rnd := uniqueName(t), level.Rand(t)
	box := &ballotBox{history: history{observed: make([][]election.Leader, 2)}}
	ctx, cancel := context.WithCancel(t.Context())
	var observing, running sync.WaitGroup
	for i := range box.observed {
		e := election.New(newClient(t, rdb, nil), name)
		observing.Go(func() {
			for l, err := range e.Observe(ctx) {
				if err == nil {
					box.tell(i, l)
				}
			}
		})
	}
	for c := range 3 {
		e := election.New(newClient(t, rdb, nil), name)
		for g := range 3 {
			rnd := rand.New(rand.NewPCG(rnd.Uint64(), 0))
			running.Go(func() {
				for i := range 20 {
					box.campaign(t, rnd, e, fmt.Sprint(c, g, i), i%5 == 0)
				}
			})
		}
	}
	running.Wait()
	cancel()
	observing.Wait()
	require.NoError(t, box.check())
	require.GreaterOrEqual(t, len(box.lasting), 9*4)
	require.Zero(t, rdb.Exists(t.Context(), name, said(name)).Val())
}

// campaign is one campaign, which may be given up. Who lasts leads until all know.
func (b *ballotBox) campaign(t *testing.T, rnd *rand.Rand, e *election.Election, value string, lasts bool) {
	ctx := t.Context()
	if !lasts && rnd.IntN(3) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rnd.IntN(5000))*time.Microsecond)
		defer cancel()
	}
	h, err := e.Campaign(ctx, value)
	if err != nil {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.perhaps = append(b.perhaps, value)
		return
	}
	if b.inside.Add(1) != 1 {
		t.Error("two lead")
	}
	b.mu.Lock()
	b.leaders = append(b.leaders, election.Leader{Value: value, Owner: h.Owner(), Token: h.Token()})
	if lasts {
		b.lasting = append(b.lasting, h.Token())
	}
	b.mu.Unlock()
	if lasts {
		assert.Eventually(t, func() bool { return b.isKnown(h.Token()) }, patience, time.Millisecond,
			"observers do not learn of a leader that lasts")
	}
	b.inside.Add(-1)
	if err := h.Unlock(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, holdfast.ErrLost) {
		t.Error(err)
	}
}
