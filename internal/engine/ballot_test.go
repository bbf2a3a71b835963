package engine

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/errs"
)

// A master that is not asked, because the lock is being given back, is not taken for silent.
func TestMasterThatIsNotAskedIsNotSilent(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	c, err := New(rdb, nil)
	require.NoError(t, err)
	v := &voter{Master: c.asMaster(), client: c}
	b := &ballot{q: &quorum{voters: []*voter{v}}, votes: make([]vote, 1), over: true, patience: time.Second}
	require.ErrorIs(t, b.send(t.Context(), 0, question{grants: true}, nil), errs.ErrReleased)
	require.Zero(t, v.Silence())
	require.NoError(t, c.Close(t.Context()))
	require.NoError(t, rdb.Close())
}

// Something else than a lock at one master, which may be the only one that was asked, is not taken for the word of a majority.
func TestMistakeOfAMinority(t *testing.T) {
	r := rival{owner: "colour", left: -1, masters: 1}
	require.NoError(t, r.blocker(2).mistake("a"))
	require.Error(t, r.blocker(1).mistake("a"))
	r.left = time.Minute
	require.NoError(t, r.blocker(1).mistake("a"), "it ends")
}
