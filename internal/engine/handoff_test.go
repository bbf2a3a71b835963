package engine

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// released is an entry that the server releases when it is asked to keep it.
type released struct{ Entry }

func (released) Pass(context.Context, time.Duration, int) remote.Outcome {
	return remote.Outcome{Reply: lua.NewReply(lua.Denied, int64(1))}
}

func (released) Abandon(func() time.Duration, time.Duration) {}
func (released) tainted() bool                               { return false }

// TestLostWhileAsking: the lease ends while the server is asked who else wants the lock. The
// watchdog has dropped the lease, and has not ended the grant yet. Unlock says that the lock was
// lost, and not that somebody had unlocked it before.
func TestLostWhileAsking(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nothing is sent
	c, err := New(rdb, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()); _ = rdb.Close() })
	b := &Lock{Asker: Asker{Client: c}, Dog: watchdog.New(watchdog.Config{})}
	g := newGrant(b, newOwner(), "id", &request{})
	g.entry = released{}
	g.tenure = &Tenure{base: b, Entry: g.entry}
	ended, err := g.pass(t.Context())
	require.True(t, ended)
	require.ErrorIs(t, err, errs.ErrLost)
	require.NotErrorIs(t, err, errs.ErrReleased)
}
