package redlock

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/lua"
)

// A master that is not asked, because the lock is being given back, is not taken for silent.
func TestMasterThatIsNotAskedIsNotSilent(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	c, err := engine.New(rdb, nil)
	require.NoError(t, err)
	v := &voter{Master: asMaster(c), client: c}
	b := &ballot{q: &quorum{voters: []*voter{v}}, votes: make([]vote, 1), over: true, patience: time.Second}
	require.ErrorIs(t, b.send(t.Context(), 0, question{grants: true}, nil), errs.ErrReleased)
	require.Zero(t, v.Silence())
	require.NoError(t, c.Close(t.Context()))
	require.NoError(t, rdb.Close())
}

// Something else than a lock at one master, which may be the only one that was asked, is not taken
// for the word of a majority.
func TestMistakeOfAMinority(t *testing.T) {
	r := rival{owner: "colour", left: -1, masters: 1}
	require.NoError(t, r.blocker(2).Mistake("a"))
	require.Error(t, r.blocker(1).Mistake("a"))
	r.left = time.Minute
	require.NoError(t, r.blocker(1).Mistake("a"), "it ends")
}

// TestRivalWhoLeaves: an owner who has left a lock at some masters, and not yet at others, is one.
func TestRivalWhoLeaves(t *testing.T) {
	p := &tally{}
	for _, owner := range []string{"a:h07", "a:h7", "b:h7", "a:h07"} {
		p.answers = append(p.answers, answer{reply: lua.NewReply(lua.Denied, 1, owner, "5")})
	}
	list := p.rivals()
	require.Len(t, list, 2)
	require.Equal(t, "a:h7", list[0].owner)
	require.Equal(t, 3, list[0].masters)
	require.Equal(t, 3, p.owned(func(int) bool { return true }))
	require.Equal(t, "held by a:h7", p.answers[0].String())
}
