package holdfast_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// everyKind are all kinds, on one server each.
var everyKind = map[string]func(*testing.T, redis.UniversalClient) func(name string) holdfast.Locker{
	"rlock": func(t *testing.T, rdb redis.UniversalClient) func(string) holdfast.Locker {
		c := kindtest.NewClient(t, rdb, nil)
		return func(name string) holdfast.Locker { return rlock.New(c, name) }
	},
	"fairlock": func(t *testing.T, rdb redis.UniversalClient) func(string) holdfast.Locker {
		c := kindtest.NewClient(t, rdb, nil)
		return func(name string) holdfast.Locker { return fairlock.New(c, name) }
	},
	"redlock": func(t *testing.T, rdb redis.UniversalClient) func(string) holdfast.Locker {
		c := []*holdfast.Client{kindtest.NewClient(t, rdb, nil)}
		return func(name string) holdfast.Locker { return redlock.New(c, name, redlock.MasterTimeout(5*time.Second)) }
	},
}

// keptOut tries the lock, and waits for it, and demands that both say what is in the way.
func keptOut(t *testing.T, l holdfast.Locker, says ...string) {
	_, try := l.TryLock(t.Context())
	const waited = "waited as long as Wait allows; "
	wait := holdfast.ErrUnavailable
	for d := 20 * time.Millisecond; !strings.Contains(wait.Error(), waited) && d < 20*time.Second; d *= 2 {
		_, wait = l.Lock(t.Context(), holdfast.Wait(d)) // a busy machine may take longer to get an answer
	}
	for _, err := range []error{try, wait} {
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		require.NotErrorIs(t, err, holdfast.ErrUnavailable)
		for _, text := range says {
			require.ErrorContains(t, err, text)
		}
	}
	require.ErrorContains(t, wait, waited)
}

// TestRefusalSaysWho: who is kept out by another client is told by whom, as it stands in Redis, and for how long still. Who is
// kept out by its own client gets a hint, because it may have the lock already and ask under another context than the hold's.
func TestRefusalSaysWho(t *testing.T) {
	for kind, of := range everyKind {
		t.Run(kind, func(t *testing.T) {
			rdb := redistest.Shared(t).Client(t)
			mine, others := of(t, rdb), of(t, rdb)
			name := t.Name()
			h := kindtest.Lock(t, mine(name))
			require.Equal(t, []string{h.Owner()}, rdb.HKeys(t.Context(), name).Val())
			keptOut(t, others(name), "held by "+h.Owner()+", whose lease ha") // has or, on a busy machine, had
			const hint = "lock under hold.Context()"
			_, err := others(name).TryLock(t.Context())
			require.NotContains(t, err.Error(), hint)
			keptOut(t, mine(name), "held by "+h.Owner(), hint)
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
}

// TestRefusalByAnotherKind: the context of the hold would not help a caller that takes the name by another kind of lock.
func TestRefusalByAnotherKind(t *testing.T) {
	c, _ := kindtest.Shared(t, nil)
	h := kindtest.Lock(t, rlock.New(c, t.Name()))
	reader := rwlock.New(c, t.Name()).RLocker()
	keptOut(t, reader, "held by "+h.Owner(), "this client holds the name as rlock; use one kind for a name")
	_, err := reader.TryLock(t.Context())
	require.NotContains(t, err.Error(), "hold.Context()")
	require.NoError(t, h.Unlock(t.Context()))
}

// TestRefusalWithoutReentry: where nothing is re-entered, the hint to lock under the context of the hold is left out.
func TestRefusalWithoutReentry(t *testing.T) {
	c, _ := kindtest.Shared(t, nil)
	permits, lead := semaphore.New(c, t.Name()+":permits", 1), election.New(c, t.Name()+":leader")
	p := kindtest.Lock(t, permits)
	l, err := lead.Campaign(t.Context(), "")
	require.NoError(t, err)
	_, tried := permits.TryLock(t.Context())
	_, waited := lead.Campaign(t.Context(), "", holdfast.Wait(0))
	for _, err := range []error{tried, waited} {
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		require.ErrorContains(t, err, "the holder is of this client: if this code path is that holder, it waits for itself")
		require.NotContains(t, err.Error(), "hold.Context()")
	}
	require.NoError(t, p.Unlock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
}

// TestRefusalOfPermits: who is refused permits that several may have is told how many are free, how many were asked for, and how
// many others wait. None of the holders is named, as any of them may give some back, and nobody is told that it waits for itself.
func TestRefusalOfPermits(t *testing.T) {
	c, _ := kindtest.Shared(t, nil)
	name := kindtest.UniqueName(t) // the number of permits stays at the server
	s := semaphore.New(c, name, 5)
	other := semaphore.New(kindtest.NewClient(t, redistest.Shared(t).Client(t), nil), name, 5)
	says := func(err error, text string) {
		t.Helper()
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		require.Regexp(t, `: not acquired: (waited as long as Wait allows; )?`+text+`( when last seen, \S+ ago)?$`, err.Error())
	}
	try := func(n int, text string) {
		t.Helper()
		_, err := s.TryAcquire(t.Context(), n)
		says(err, text)
	}
	var holds []*holdfast.Hold
	for range 5 {
		holds = append(holds, kindtest.Lock(t, s))
	}
	try(1, "0 of 5 permits free")
	_, err := s.Lock(t.Context(), holdfast.Wait(200*time.Millisecond))
	says(err, "0 of 5 permits free")

	waiting, stop := context.WithCancel(t.Context())
	done := make(chan error)
	waits := func(s *semaphore.Semaphore, n, are int) {
		t.Helper()
		go func() {
			_, err := s.Acquire(waiting, n)
			done <- err
		}()
		kindtest.Eventually(t, "it has a place", func() bool {
			state, err := s.State(t.Context())
			return err == nil && state.Waiters == are
		})
	}
	waits(other, 2, 1)
	waits(other, 1, 2)
	waits(other, 1, 3)
	try(1, "0 of 5 permits free, 3 waiting")
	_, err = s.Lock(t.Context(), holdfast.Wait(200*time.Millisecond))
	says(err, "0 of 5 permits free, 3 waiting") // and not itself

	require.NoError(t, holds[0].Unlock(t.Context())) // the first in the queue waits for two
	try(1, "1 of 5 permits free, 3 waiting")
	try(3, "1 of 5 permits free, 3 asked for, 3 waiting")
	waits(s, 3, 4)
	_, err = s.Lock(t.Context(), holdfast.Wait(200*time.Millisecond))
	says(err, "1 of 5 permits free, 4 waiting")
	stop()
	for range 4 {
		require.ErrorIs(t, <-done, holdfast.ErrNotAcquired)
	}
	kindtest.Eventually(t, "their places are given back", func() bool {
		state, err := s.State(t.Context())
		return err == nil && state.Waiters == 0
	})
	require.NoError(t, other.SetPermits(t.Context(), 2))
	try(1, "0 of 2 permits free, 4 out")
	for _, h := range holds[1:] {
		require.NoError(t, h.Unlock(t.Context()))
	}
}

// refused demands that nobody waits for what will not end, and that State does not call it an owner.
func refused(t *testing.T, l holdfast.Locker, says ...string) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, try := l.TryLock(ctx)
	_, wait := l.Lock(ctx)
	list := []error{try, wait}
	switch m := l.(type) {
	case interface {
		State(context.Context) (holdfast.State, error)
	}:
		_, err := m.State(ctx)
		list = append(list, err)
	case *redlock.Mutex:
		_, err := m.State(ctx)
		list = append(list, err)
	}
	require.Len(t, list, 3)
	for _, err := range list {
		require.NotErrorIs(t, err, holdfast.ErrNotAcquired, "nobody has it")
		require.NotErrorIs(t, err, holdfast.ErrUnavailable)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "it waited")
		require.ErrorContains(t, err, "the key "+l.Name()+" has no time to live, and ")
		for _, text := range says {
			require.ErrorContains(t, err, text)
		}
	}
}

// TestForeignHash: what is in the way and is no lock is named, and is not taken for a busy one. Who
// waits for what has no end and is certainly no lock would wait for ever, so nobody does.
func TestForeignHash(t *testing.T) {
	uuid := "3f0c2a4e-0c67-4f0e-9a52-6d9d6f1a7b11"
	many := []any{}
	for i := range 20 {
		many = append(many, "field "+strconv.Itoa(i), i)
	}
	rows := map[string]struct {
		demand func(*testing.T, holdfast.Locker, ...string) // where it has no end
		fields []any
		says   []string
	}{
		"somebody's data": {refused, []any{"colour", "red"}, []string{
			`its field "colour" is not a lock owner, so it is not a lock`, "delete it or choose another name",
		}},
		"a read-write lock":   {keptOut, []any{"mode", "read", uuid + ":7", 1}, []string{"is a lock of another kind"}},
		"a write lock":        {keptOut, []any{uuid + ":7:write", 1}, []string{" is not a lock owner"}},
		"many fields":         {refused, many, []string{"so it is not a lock of this library"}},
		"a number for a name": {keptOut, []any{uuid + ":main", 1}, []string{" is not a lock owner"}},
	}
	for kind, of := range everyKind {
		for what, row := range rows {
			t.Run(kind+" and "+what, func(t *testing.T) {
				rdb := redistest.Shared(t).Client(t)
				l := of(t, rdb)(t.Name())
				require.NoError(t, rdb.HSet(t.Context(), l.Name(), row.fields...).Err())
				row.demand(t, l, append(row.says, " key ", " has no time to live")...)
				require.NoError(t, rdb.PExpire(t.Context(), l.Name(), time.Hour).Err())
				keptOut(t, l, append(row.says, "its key has ", " to live, and ")...)
				require.NoError(t, rdb.Del(t.Context(), l.Name()).Err())
				require.NoError(t, once(t, l), "and it is no obstacle any more")
			})
		}
		t.Run(kind+" and a lock without an end", func(t *testing.T) {
			rdb := redistest.Shared(t).Client(t)
			l := of(t, rdb)(t.Name())
			require.NoError(t, rdb.HSet(t.Context(), l.Name(), uuid+":7", 1).Err())
			keptOut(t, l, "its key has no time to live, so it is not a lock")
			require.NoError(t, rdb.PExpire(t.Context(), l.Name(), time.Hour).Err())
			keptOut(t, l, "held by "+uuid+":7, whose lease ha")
			require.NoError(t, rdb.Del(t.Context(), l.Name()).Err())
		})
	}
}

// TestForeignHashAtAMinority: a quorum lock does not need the masters that hold something else, whichever is asked first.
func TestForeignHashAtAMinority(t *testing.T) {
	var mine, others []*holdfast.Client
	var rdbs []*redis.Client
	for _, m := range redistest.StartMasters(t, 3) {
		rdbs = append(rdbs, m.Client(t))
		mine = append(mine, kindtest.NewClient(t, m.Client(t), nil))
		others = append(others, kindtest.NewClient(t, m.Client(t), nil))
	}
	opts := []holdfast.Option{redlock.TrustRestarts(), redlock.MasterTimeout(5 * time.Second)}
	l := redlock.New(mine, t.Name(), opts...)
	channel := "redisson_lock__channel:{" + l.Name() + "}"
	put := func(rdb *redis.Client) {
		require.NoError(t, rdb.Del(t.Context(), l.Name()).Err())
		require.NoError(t, rdb.HSet(t.Context(), l.Name(), "colour", "red").Err())
	}
	for _, rdb := range rdbs {
		h := kindtest.Lock(t, redlock.New(others, t.Name(), opts...))
		for _, r := range rdbs { // it is to have one to spare
			kindtest.Eventually(t, "it has it", func() bool { return r.HExists(t.Context(), l.Name(), h.Owner()).Val() })
		}
		granted := make(chan error, 1)
		go func() { granted <- once(t, l) }()
		kindtest.Eventually(t, "it listens", func() bool { return kindtest.Listeners(t.Context(), rdb, channel) > 0 })
		put(rdb)
		require.NoError(t, h.Unlock(t.Context()))
		require.NoError(t, <-granted)
		require.NoError(t, once(t, l))
		require.NoError(t, rdb.Del(t.Context(), l.Name()).Err())
	}
	put(rdbs[0])
	put(rdbs[1])
	refused(t, l, `its field "colour" is not a lock owner`)
	for _, rdb := range rdbs[:2] {
		require.Equal(t, map[string]string{"colour": "red"}, rdb.HGetAll(t.Context(), l.Name()).Val())
	}
	kindtest.Eventually(t, "it is free", func() bool { return rdbs[2].Exists(t.Context(), l.Name()).Val() == 0 })
}

func once(t *testing.T, l holdfast.Locker) error {
	return holdfast.Do(t.Context(), l, func(context.Context) error { return nil })
}

// TestRefusalWithoutPermission: a user who may not read the hash is kept out as any other, and only not told by whom.
func TestRefusalWithoutPermission(t *testing.T) {
	srv := redistest.Start(t)
	admin := srv.Client(t)
	require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "limited", "on", "nopass", "~*", "&*", "+@all",
		"-hgetall").Err())
	rdb := redistest.NewClient(t, srv.Addr(), func(o *redis.Options) { o.Username, o.Password = "limited", "any" })
	h := kindtest.Lock(t, everyKind["rlock"](t, admin)("a"))
	keptOut(t, everyKind["rlock"](t, rdb)("a"), "held by another owner, whose lease ha")
	require.NoError(t, h.Unlock(t.Context()))
}

// TestReplicaGrantsNothing: a replica shows who has a lock, and will never grant it. Who asks there, or waits, is told that it
// is one, and not that somebody has the lock. The control is the master.
func TestReplicaGrantsNothing(t *testing.T) {
	master, replica := redistest.Start(t), redistest.Start(t)
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	replica.Command(t, "REPLICAOF", host, port)
	near, far := master.Client(t), replica.Client(t)
	for name, lock := range map[string]func(c *holdfast.Client, name string) holdfast.Locker{
		"rlock": func(c *holdfast.Client, name string) holdfast.Locker { return rlock.New(c, name) },
		"beside": func(c *holdfast.Client, name string) holdfast.Locker {
			return rlock.New(c, name, rlock.RespectStrings())
		},
		"fairlock":  func(c *holdfast.Client, name string) holdfast.Locker { return fairlock.New(c, name) },
		"write":     func(c *holdfast.Client, name string) holdfast.Locker { return rwlock.New(c, name) },
		"read":      func(c *holdfast.Client, name string) holdfast.Locker { return rwlock.New(c, name).RLocker() },
		"semaphore": func(c *holdfast.Client, name string) holdfast.Locker { return semaphore.New(c, name, 1) },
		"redlock": func(c *holdfast.Client, name string) holdfast.Locker {
			return redlock.New([]*holdfast.Client{c}, name, redlock.MasterTimeout(5*time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := kindtest.NewClient(t, near, nil)
			h := kindtest.Lock(t, lock(c, name), holdfast.Lease(time.Hour))
			if name == "read" { // it is kept out by a writer
				require.NoError(t, h.Unlock(t.Context()))
				h = kindtest.Lock(t, rwlock.New(c, name), holdfast.Lease(time.Hour))
			}
			_, err := lock(c, name).TryLock(t.Context())
			require.ErrorIs(t, err, holdfast.ErrNotAcquired)
			require.NotContains(t, err.Error(), "READONLY")
			require.EqualValues(t, 1, near.Do(t.Context(), "WAIT", 1, 20000).Val(), "the replica has it all")
			there(t, far, name, lock)
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
}

// there demands that a lock is refused at a replica, once with a wait and once without.
func there(t *testing.T, far *redis.Client, name string, lock func(*holdfast.Client, string) holdfast.Locker) {
	l := lock(kindtest.NewClient(t, far, &holdfast.Options{RetryBudget: 500 * time.Millisecond}), name)
	_, try := l.TryLock(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, wait := l.Lock(ctx)
	for _, err := range []error{try, wait} {
		require.ErrorIs(t, err, holdfast.ErrUnavailable)
		require.NotErrorIs(t, err, holdfast.ErrNotAcquired)
		require.ErrorContains(t, err, "READONLY")
	}
}
