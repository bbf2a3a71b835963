package engine

import (
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// TestBlockedByAnotherWait: the wait that would have been told of ends before it is. The next one for the same
// holder is told of, once.
func TestBlockedByAnotherWait(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	log := &logged{Handler: slog.DiscardHandler}
	c, err := New(rdb, &Options{Logger: slog.New(log), LongWait: time.Second})
	require.NoError(t, err)
	b := &Lock{Asker: Asker{Client: c}, Key: queue.Key{Kind: "rlock", Name: "a"}}
	holder := newGrant(b, newOwner(), "holder", &request{})
	holder.live, holder.granted = true, time.Now()
	wait := func() longWait {
		g := newGrant(b, newOwner(), "waiter", &request{})
		c.waits.enter(&g.asked.stand, g, 0)
		stand := &g.asked.stand
		return longWait{old: old{stand, g, stand.number}, g: g, waited: time.Minute, under: []*grant{holder}}
	}
	l, later := newLookout(c), time.Now().Add(time.Minute)
	ended := wait()
	c.waits.leave(ended.spot)
	l.blocked.look(l, []longWait{ended}, later)
	for range 2 {
		l.blocked.look(l, []longWait{wait()}, later)
	}
	require.NoError(t, c.Close(t.Context())) // which waits for the records
	require.EqualValues(t, 1, log.n.Load())
}
