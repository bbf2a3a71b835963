package engine

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/queue"
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

// TestHeadStart: who is near needs none, who is far away what a round trip needs and half of that,
// and nobody more than others wait. What took long once is no distance.
func TestHeadStart(t *testing.T) {
	g := &grant{base: &Lock{Asker: Asker{Client: &Client{}}}, asked: &request{}}
	way := &g.base.Client.way
	require.Zero(t, g.headStart(), "it is not known yet")
	way.took(50 * time.Millisecond)
	require.Equal(t, 75*time.Millisecond, g.headStart())
	way.took(20 * time.Millisecond)
	require.Equal(t, 30*time.Millisecond, g.headStart())
	way.took(28 * time.Millisecond)
	require.Equal(t, 21*time.Millisecond, way.usual())
	way.took(time.Millisecond)
	require.Zero(t, g.headStart(), "as near as anybody")
	way.took(time.Millisecond + 160*time.Microsecond)
	require.Zero(t, g.headStart())
	for range 100 {
		way.took(time.Second)
	}
	require.Equal(t, maxLetGo, g.headStart())
	g.asked.once = true
	require.Zero(t, g.headStart(), "it does not come again")
}

// TestGuestsAreMany: however many locks were found to be Redisson's, a bounded number is remembered,
// and one that is seen again pushes none of the others out.
func TestGuestsAreMany(t *testing.T) {
	const redisson = "3c4cbb6c-1b2f-4a6c-9e3b-6e6f3c1e2a11:17"
	var s guests
	key := func(i int) queue.Key { return queue.Key{Kind: "rlock", Name: strconv.Itoa(i)} }
	for i := range maxGuests {
		s.note(key(i), redisson)
	}
	s.note(key(7), redisson)
	for i := range maxGuests {
		require.True(t, s.near(key(i), time.Now()), "%d", i)
	}
	s.note(key(maxGuests), redisson)
	require.LessOrEqual(t, len(s.seen), maxGuests)
	require.True(t, s.near(key(maxGuests), time.Now()))
	s.note(key(0), "3c4cbb6c-1b2f-4a6c-9e3b-6e6f3c1e2a11:h17")
	require.False(t, s.near(key(0), time.Now()), "one of ours is no guest")
}

// TestGuestTurn: beside a client of Redisson's a turn is one grant or two, however long they take. Among
// clients of this library it is a time.
func TestGuestTurn(t *testing.T) {
	b := &Lock{Asker: Asker{Client: new(Client)}, Key: queue.Key{Kind: "rlock", Name: "a"}}
	turn := func(first uint64) *Tenure {
		one := &Tenure{base: b, Entry: &field{}}
		one.begin(nil, first, 200)
		return one
	}
	alone := turn(1)
	alone.used = 50
	require.True(t, alone.fresh())
	alone.look = time.Now()
	require.False(t, alone.fresh(), "its time is over")

	b.Client.guests.note(b.Key, "3c4cbb6c-1b2f-4a6c-9e3b-6e6f3c1e2a11:17")
	require.False(t, turn(1).fresh(), "one grant is all")
	beside := turn(2)
	require.True(t, beside.fresh(), "one grant of two")
	beside.used++
	require.False(t, beside.fresh(), "two")
}
