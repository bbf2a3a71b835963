package election_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// forLong are the options of leaders whose leases do not end during a test.
var forLong = &holdfast.Options{Lease: time.Hour}

// isTold reports whether an observer is told of a value within a time.
func (w *watched) isTold(value string, within time.Duration) bool {
	limit := time.After(within)
	for {
		select {
		case l := <-w.told:
			if l.Value == value {
				return true
			}
		case <-limit:
			return false
		}
	}
}

// TestLeaseEnds: a leader dies silently. Observers see it when its lease has ended. Control: they do not if they do not look then.
func TestLeaseEnds(t *testing.T) {
	ends := func(t *testing.T, within time.Duration) bool {
		b := newBooth(t, &holdfast.Options{Lease: 2 * time.Second}, nil)
		_ = lead(t, b.faulty, "dies")
		w, stop := watch(t, b.other)
		defer stop()
		require.Equal(t, "dies", w.next().Value)
		eventually(t, "it listens", func() bool { return listeners(t, b.rdb, "booth") == 1 })
		b.proxy.Silence(true)
		eventually(t, "the lease ends", func() bool { return b.rdb.Exists(t.Context(), "booth").Val() == 0 })
		return w.isTold("", within)
	}
	require.True(t, ends(t, patience))
	defer defence.TermEnd.Without(t)()
	require.False(t, ends(t, time.Second), "control")
}

// TestObserverInAnOutage: an observer is told once in each outage that Redis does not answer, and goes on when it does.
func TestObserverInAnOutage(t *testing.T) {
	b := newBooth(t, &holdfast.Options{RetryBudget: 500 * time.Millisecond}, forLong)
	h := lead(t, b.other, "first")
	w, stop := watch(t, b.faulty)
	require.Equal(t, "first", w.next().Value)
	for _, next := range []string{"second", "third"} {
		b.proxy.Stop()
		require.ErrorIs(t, kindtest.Receive(t, "an outage is told", w.errs), holdfast.ErrUnavailable)
		unlock(t, h)
		h = lead(t, b.other, next)
		require.Empty(t, w.told)
		b.proxy.Start()
		require.Equal(t, next, w.next().Value)
		unlock(t, h)
		require.Equal(t, election.Leader{}, w.next(), "it listens again")
		h = lead(t, b.other, "between")
		require.Equal(t, "between", w.next().Value)
	}
	stop()
	require.Empty(t, w.errs)
	unlock(t, h)
}

// TestObserverMayNotListen: an observer without the permission to subscribe is told so, once, and sees who leads all the
// same. When it is permitted, it is told of changes by messages.
func TestObserverMayNotListen(t *testing.T) {
	srv := redistest.Start(t)
	const channel = "holdfast_election__channel:{e}"
	if srv.Major() < 7 && !srv.IsValkey() {
		srv.Command(t, "ACL", "SETUSER", "deaf", "on", ">secret", "~*", "+@all", "-subscribe")
	} else {
		srv.Command(t, "ACL", "SETUSER", "deaf", "on", ">secret", "~*", "resetchannels", "+@all")
	}
	rdb := srv.Client(t, func(o *redis.Options) { o.Username, o.Password = "deaf", "secret" })
	other := election.New(newClient(t, srv.Client(t), nil), "e")
	w, stop := watch(t, election.New(newClient(t, rdb, nil), "e"))
	require.Equal(t, election.Leader{}, w.next())
	require.ErrorContains(t, kindtest.Receive(t, "it is told", w.errs), "permit this user to subscribe to "+channel)
	lead(t, other, "leads")
	require.True(t, w.isTold("leads", patience))
	srv.Command(t, "ACL", "SETUSER", "deaf", "allchannels", "+subscribe")
	eventually(t, "it listens", func() bool { return listeners(t, srv.Client(t), "e") == 1 })
	stop()
	require.Empty(t, w.errs)
}

// TestObserverOfAClosedClient: the sequence ends with the client.
func TestObserverOfAClosedClient(t *testing.T) {
	c, err := holdfast.New(redistest.Shared(t).Client(t), nil)
	require.NoError(t, err)
	var last error
	for l, err := range election.New(c, uniqueName(t)).Observe(t.Context()) {
		require.Equal(t, election.Leader{}, l)
		if last = err; err == nil {
			require.NoError(t, c.Close(t.Context()))
		}
	}
	require.ErrorIs(t, last, holdfast.ErrClosed)
}

// TestCloseResigns: who is closed resigns, and observers and candidates are told.
func TestCloseResigns(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	name := uniqueName(t)
	c, err := holdfast.New(rdb, forLong)
	require.NoError(t, err)
	e, other := election.New(c, name), election.New(newClient(t, rdb, forLong), name)
	w, stop := watch(t, other)
	defer stop()
	for _, candidates := range []int{0, 1} {
		if candidates > 0 {
			c, err = holdfast.New(rdb, forLong)
			require.NoError(t, err)
			e = election.New(c, name)
		}
		h := lead(t, e, "closed")
		w.until("closed")
		if candidates == 0 {
			require.NoError(t, c.Close(t.Context()))
			require.Equal(t, election.Leader{}, w.until(""))
		} else {
			next := stand(t, rdb, other, "next")
			require.NoError(t, c.Close(t.Context()))
			successor := next.Hold()
			w.until("next")
			unlock(t, successor)
		}
		require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrClosed)
		require.False(t, e.IsLeader())
	}
}

// TestForeignKeys: a key that holds something else is named, with the remedy.
func TestForeignKeys(t *testing.T) {
	e, rdb := newElection(t)
	require.NoError(t, rdb.HSet(t.Context(), said(e.Name()), "a", "hash").Err())
	_, err := e.Campaign(t.Context(), "")
	require.ErrorContains(t, err, "the key "+e.Name()+" is not an election; a semaphore, a latch or another program may have this name, as \"holdfast inspect\" says; choose another name; if it is an election, ")
	require.ErrorContains(t, err, " or "+said(e.Name())+" has the wrong type: WRONGTYPE")
	require.ErrorContains(t, kindtest.Err(e.Leader(t.Context())), said(e.Name()))
	require.Equal(t, "hash", rdb.HGet(t.Context(), said(e.Name()), "a").Val(), "it is somebody else's")
	require.Zero(t, rdb.Exists(t.Context(), e.Name()).Val(), "it was given back")
}

// TestAMessageIsLost: the message about the first leader is lost. The observer finds out within a lease of its client.
func TestAMessageIsLost(t *testing.T) {
	b := newBooth(t, &holdfast.Options{Lease: 2 * time.Second}, forLong)
	w, _ := watch(t, b.faulty)
	require.Equal(t, election.Leader{}, w.next())
	eventually(t, "it listens", func() bool { return listeners(t, b.rdb, "booth") == 1 })
	b.proxy.LoseReplies(true)
	h := lead(t, b.other, "leader")
	eventually(t, "the message is lost", func() bool { return b.proxy.Lost("booth") })
	b.proxy.LoseReplies(false)
	require.Equal(t, "leader", w.until("leader").Value)
	unlock(t, h)
}

// TestTheAnnouncementIsLost: Redis loses the announcement, and not the lock. The leader's next renewal writes it again.
func TestTheAnnouncementIsLost(t *testing.T) {
	b := newBooth(t, nil, &holdfast.Options{Lease: 3 * time.Second})
	h := lead(t, b.other, "a leader\n")
	w, _ := watch(t, b.other)
	require.Equal(t, h.Token(), w.next().Token)
	require.NoError(t, b.rdb.Del(t.Context(), said("booth")).Err())
	eventually(t, "it is known again", func() bool {
		l, err := b.faulty.Leader(t.Context())
		return err == nil && l.Value == "a leader\n" && l.Token == h.Token() && l.Owner == h.Owner()
	})
	require.Positive(t, b.rdb.PTTL(t.Context(), said("booth")).Val())
	unlock(t, h)
	require.Zero(t, b.rdb.Exists(t.Context(), said("booth")).Val())
	require.Equal(t, election.Leader{}, w.until(""))
}
