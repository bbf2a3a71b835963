//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// events are what "watch --json" has printed.
func (p *program) events(t *testing.T) (list []event) {
	t.Helper()
	for line := range strings.Lines(p.stdout.String()) {
		var e event
		if strings.HasSuffix(line, "\n") { // else the rest is still to come
			require.NoError(t, json.Unmarshal([]byte(line), &e), line)
			list = append(list, e)
		}
	}
	return list
}

// sees waits until the n-th event is there, and returns it.
func (p *program) sees(t *testing.T, n int, what string) event {
	t.Helper()
	eventually(t, func() bool { return len(p.events(t)) >= n }, what)
	e := p.events(t)[n-1]
	require.Equal(t, what, e.Event)
	return e
}

// interrupted ends a watch as a user does, and expects that it is no failure.
func (p *program) interrupted(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.Zero(t, p.told(t, sig), p.stderr.String())
	require.Empty(t, p.stderr.String())
}

// TestMadeBetweenTwoCommands: a look that finds nothing at first, and a lock then, says of what kind the lock is.
// The owner of the plain one keeps it for later, which its name says.
func TestMadeBetweenTwoCommands(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	c := kindtest.NewClient(t, redistest.Shared(t).Client(t), nil)
	for kind, create := range map[string]func(name string){
		"rwlock": func(name string) { kindtest.Lock(t, rwlock.New(c, name)) },
		"rlock":  func(name string) { kindtest.Lock(t, rlock.New(c, name), rlock.Keep(time.Minute)) },
		"latch": func(name string) {
			require.NoError(t, kindtest.Err(latch.New(c, name).Set(t.Context(), 2)))
		},
	} {
		t.Run(kind, func(t *testing.T) {
			made := false
			rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
				err := send()
				if !made && cmds[0].Name() == "type" {
					made = true
					create(t.Name())
				}
				return err
			}))
			w := &watcher{watchConfig: watchConfig{name: t.Name()}, rdbs: []redis.UniversalClient{rdb},
				clients: []*holdfast.Client{kindtest.NewClient(t, rdb, nil)}}
			s, err := w.look(t.Context())
			require.NoError(t, err)
			require.True(t, made)
			require.Equal(t, kind, s.kind)
			require.Equal(t, kind == "latch", s.left == 2)
			require.Equal(t, kind != "latch", len(s.holders) == 1)
		})
	}
}

// TestWatchLabel: who has the lock is told by the label, too.
func TestWatchLabel(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	c := kindtest.NewClient(t, srv.Client(t), &holdfast.Options{Label: "billing@host"})
	kindtest.Lock(t, rlock.New(c, t.Name()))
	eventually(t, func() bool { return exists(t, srv.Client(t), keys.Label(c.ID())) == 1 }, "the label is written")
	p := command(t, srv, "watch", "--json", t.Name())
	require.Equal(t, "billing@host", p.sees(t, 1, "held").Label)
	p.interrupted(t, syscall.SIGTERM)
}

// TestWatchWaits: WAIT is what "ls" shows, of kinds whose waiters have no places, too; and a lock that stays taken is marked.
func TestWatchWaits(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	c, other, third := kindtest.NewClient(t, srv.Client(t), nil), kindtest.NewClient(t, srv.Client(t), nil), kindtest.NewClient(t, srv.Client(t), nil)
	kindtest.Lock(t, rwlock.New(c, "rw"))
	kindtest.Begin(t.Context(), t, rwlock.New(other, "rw").RLocker().Lock)
	require.NoError(t, kindtest.Err(latch.New(c, "latch").Set(t.Context(), 2)))
	kindtest.Begin(t.Context(), t, func(ctx context.Context, _ ...holdfast.Option) (*holdfast.Hold, error) {
		return nil, latch.New(other, "latch").Wait(ctx)
	})
	sight := func(name string) *sight {
		w := &watcher{watchConfig: watchConfig{name: name}, rdbs: []redis.UniversalClient{rdb}, clients: []*holdfast.Client{c}}
		s, err := w.look(t.Context())
		require.NoError(t, err)
		return s
	}
	shown := func(name, wait string) {
		t.Helper()
		eventually(t, func() bool {
			var out strings.Builder
			require.NoError(t, lines(&out)(sight(name).without("held", "")))
			_, list, _ := ask(srv, "ls", name)
			return strings.HasSuffix(strings.TrimSpace(out.String()), " "+wait) && strings.Contains(list, " "+wait+" ")
		}, name+" has "+wait)
	}
	shown("rw", "~1")
	shown("latch", "~1")
	kindtest.Begin(t.Context(), t, rwlock.New(third, "rw").Lock)
	shown("rw", "~2")

	done := kindtest.Lock(t, rlock.New(c, "done"), holdfast.HoldAtLeast(time.Hour))
	before := sight("done")
	require.NoError(t, done.Unlock(t.Context()))
	events := between(before, sight("done"))
	require.Len(t, events, 1)
	require.Equal(t, []string{"unlocked", done.Owner(), unlockedNote}, []string{events[0].Event, events[0].Owner, events[0].Note})
}

// TestWatchUnlockedSeveral: of several masters a majority says that the owner has unlocked, while one is down; and WAIT is what "ls"
// shows of each.
func TestWatchUnlockedSeveral(t *testing.T) {
	t.Parallel()
	masters := redistest.StartMasters(t, 3)
	w := &watcher{watchConfig: watchConfig{name: t.Name()}}
	clients := func() (of []*holdfast.Client) {
		for _, m := range masters {
			of = append(of, kindtest.NewClient(t, m.Client(t), nil))
		}
		return of
	}
	w.clients = clients()
	for _, m := range masters {
		w.rdbs = append(w.rdbs, m.Client(t))
	}
	look := func() (s *sight) {
		eventually(t, func() (answered bool) { // a busy machine may take longer than a look waits for a master
			var err error
			s, err = w.look(t.Context())
			return err == nil
		}, "a majority answers")
		return s
	}
	require.Zero(t, look().waiters, "nobody has it, and nobody waits")
	hold := kindtest.Lock(t, redlock.New(clients(), t.Name(), redlock.MasterTimeout(5*time.Second)), holdfast.HoldAtLeast(time.Hour))
	require.Equal(t, -1, look().waiters, "of those who wait inside its process nothing is known")
	kindtest.Begin(t.Context(), t, redlock.New(clients(), t.Name(), redlock.MasterTimeout(5*time.Second)).Lock)
	eventually(t, func() bool { s := look(); return s.waiters == 1 && s.listen }, "one waits")
	before := look()
	require.Empty(t, before.unlocked)
	masters[2].Kill()
	require.NoError(t, hold.Unlock(t.Context()))
	var events []event
	eventually(t, func() bool { events = between(before, look()); return len(events) > 0 }, "an event")
	require.Len(t, events, 1)
	require.Equal(t, []string{"unlocked", hold.Owner(), unlockedNote}, []string{events[0].Event, events[0].Owner, events[0].Note})
}

// TestWatchKinds: a grant and a release of each kind, by what is in Redis alone.
func TestWatchKinds(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	c := kindtest.NewClient(t, srv.Client(t), nil)
	type lock = func(ctx context.Context, name string) (*holdfast.Hold, error)
	of := func(l func(name string) holdfast.Locker) lock {
		return func(ctx context.Context, name string) (*holdfast.Hold, error) { return l(name).Lock(ctx) }
	}
	kinds := map[string]struct {
		lock  lock
		kind  string
		count int
	}{
		"rlock": {of(func(n string) holdfast.Locker { return rlock.New(c, n) }), "rlock", 1},
		"fair":  {of(func(n string) holdfast.Locker { return fairlock.New(c, n) }), "rlock", 1},
		"read":  {of(func(n string) holdfast.Locker { return rwlock.New(c, n).RLocker() }), "rwlock", 1},
		"write": {of(func(n string) holdfast.Locker { return rwlock.New(c, n) }), "rwlock", 1},
		"permits": {func(ctx context.Context, n string) (*holdfast.Hold, error) {
			return semaphore.New(c, n, 3).Acquire(ctx, 2)
		}, "semaphore", 2},
		"election": {func(ctx context.Context, n string) (*holdfast.Hold, error) {
			return election.New(c, n).Campaign(ctx, "here\x1b[31m")
		}, "election", 1},
	}
	for what, k := range kinds {
		t.Run(what, func(t *testing.T) {
			lock := func() *holdfast.Hold {
				hold, err := k.lock(t.Context(), t.Name())
				require.NoError(t, err)
				return hold
			}
			var hold *holdfast.Hold
			last := 3
			if what == "election" { // which is announced after it was granted: before that it is an rlock
				hold, last = lock(), 2
			}
			p := command(t, srv, "watch", "--json", "--every", "100ms", t.Name())
			e := p.sees(t, 1, map[int]string{3: "free", 2: "held"}[last])
			require.Equal(t, t.Name(), e.Name)
			if hold == nil {
				hold = lock()
				e = p.sees(t, 2, "granted")
			}
			require.Equal(t, hold.Owner(), e.Owner)
			require.Equal(t, k.kind, e.Kind)
			require.Equal(t, k.count, *e.Count)
			require.InDelta(t, holdfast.DefaultLease.Milliseconds(), *e.LeaseMS, float64(holdfast.DefaultLease.Milliseconds()))
			if k.kind == "rlock" || k.kind == "election" {
				require.NotEmpty(t, e.Token)
			}
			require.Equal(t, what == "election", e.Leader == "here\x1b[31m")
			require.NoError(t, hold.Unlock(t.Context()))
			require.Equal(t, hold.Owner(), p.sees(t, last, "released").Owner)
			p.interrupted(t, syscall.SIGINT)
			require.Len(t, p.events(t), last)
		})
	}
	t.Run("latch", func(t *testing.T) {
		l := latch.New(c, t.Name())
		require.NoError(t, kindtest.Err(l.Set(t.Context(), 2)))
		p := command(t, srv, "watch", "--json", "--every", "100ms", t.Name())
		require.Equal(t, 2, *p.sees(t, 1, "counted").Count)
		require.NoError(t, kindtest.Err(l.CountDown(t.Context())))
		require.Equal(t, 1, *p.sees(t, 2, "counted").Count)
		require.NoError(t, kindtest.Err(l.CountDown(t.Context())))
		require.Equal(t, 0, *p.sees(t, 3, "counted").Count)
		p.interrupted(t, syscall.SIGTERM)
	})
}

// TestWatchIsWoken: a release is heard, an hour before the next look. The control is a watch that may not listen, which says so
// and has not seen it when the other has; and nobody is taken for one who waits: a holder would give way to that one.
func TestWatchIsWoken(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	address := user(t, srv, "deaf", "-psubscribe")
	hold := kindtest.Lock(t, rlock.New(kindtest.NewClient(t, srv.Client(t), nil), t.Name()), holdfast.Lease(2*time.Hour))
	p := command(t, srv, "watch", "--json", "--every", "1h", t.Name())
	require.Equal(t, hold.Owner(), p.sees(t, 1, "held").Owner)
	deaf := command(t, srv, "watch", "--json", "--every", "1h", "--redis", address, t.Name())
	deaf.sees(t, 1, "held")
	eventually(t, func() bool {
		return strings.Contains(deaf.stderr.String(), "cannot listen for releases, and looks every 1h")
	}, "it says so")
	heard, err := rdb.PubSubNumSub(t.Context(), keys.For(t.Name()).Channel).Result()
	require.NoError(t, err)
	require.Zero(t, heard[keys.For(t.Name()).Channel], "it is not counted among those who wait")
	patterns, err := rdb.PubSubNumPat(t.Context()).Result()
	require.NoError(t, err)
	require.Positive(t, patterns, "and listens")

	require.NoError(t, hold.Unlock(t.Context()))
	p.sees(t, 2, "released")
	p.interrupted(t, syscall.SIGINT)
	require.Zero(t, deaf.told(t, syscall.SIGTERM))
	require.Len(t, deaf.events(t), 1, "control")
}

// TestWatchSeveral: the lock of a Cluster and of several masters is watched as that of one server. A
// vote of one master, which has a token of its own, is no grant that was missed.
func TestWatchSeveral(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1, 0)
	masters := redistest.StartMasters(t, 3)
	var of []*holdfast.Client
	quorum := []string{"watch", "--json", "--every", "100ms"}
	for _, m := range masters {
		of = append(of, kindtest.NewClient(t, m.Client(t), nil))
		quorum = append(quorum, "--redis", "redis://"+m.Addr())
	}
	c := kindtest.NewClient(t, cluster.Client(t), nil)
	for what, k := range map[string]struct {
		locker holdfast.Locker
		args   []string
	}{
		"cluster": {rlock.New(c, t.Name()), []string{"watch", "--json", "--every", "100ms", "--redis", "redis+cluster://" +
			cluster.Nodes[0].Addr()}},
		"quorum": {redlock.New(of, t.Name(), redlock.MasterTimeout(5*time.Second)), quorum},
	} {
		t.Run(what, func(t *testing.T) {
			p := start(t, nil, append(k.args, k.locker.Name())...)
			p.sees(t, 1, "free")
			if what == "quorum" {
				voted(t, masters[0], k.locker.Name())
			}
			hold := kindtest.Lock(t, k.locker)
			require.Equal(t, hold.Owner(), p.sees(t, 2, "granted").Owner)
			require.NoError(t, hold.Unlock(t.Context()))
			p.sees(t, 3, "released")
			p.interrupted(t, syscall.SIGINT)
		})
	}
}

// voted has a master vote for somebody, until it has been looked at.
func voted(t *testing.T, master *redistest.Server, name string) {
	t.Helper()
	rdb, lock := master.Client(t), keys.For(name)
	require.NoError(t, rdb.HSet(t.Context(), name, "11111111-1111-4111-8111-111111111111:h1", 1).Err())
	require.NoError(t, rdb.Set(t.Context(), lock.Token, time.Now().UnixMicro(), time.Minute).Err())
	looks := func() int64 { return master.CommandCalls(t)["hgetall"] }
	before := looks()
	eventually(t, func() bool { return looks() > before+1 }, "the vote is looked at")
	require.NoError(t, rdb.Del(t.Context(), name).Err())
}

// TestWatchOutage: a Redis that goes away and comes back is told of, once each, and watched on.
func TestWatchOutage(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := command(t, srv, "watch", "--json", "--every", "100ms", "--redis", "redis://"+srv.Addr()+"?max_retries=-1",
		t.Name())
	p.sees(t, 1, "free")
	srv.Kill()
	eventually(t, func() bool { return strings.Contains(p.stderr.String(), "waiting for it") }, "an outage")
	srv.Restart()
	eventually(t, func() bool { return strings.Contains(p.stderr.String(), "answers again") }, "its end")
	kindtest.Lock(t, rlock.New(kindtest.NewClient(t, srv.Client(t), nil), t.Name()))
	p.sees(t, 2, "granted")
	require.Zero(t, p.told(t, syscall.SIGINT))
	require.Equal(t, 1, strings.Count(p.stderr.String(), "waiting for it"))
	require.Equal(t, 1, strings.Count(p.stderr.String(), "answers again"))
}

// TestWatchNoLock: what is no lock gets one line that says what to do, and stays what it is.
func TestWatchNoLock(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	require.NoError(t, rdb.HSet(t.Context(), "hash", "colour", "red").Err())
	require.NoError(t, rdb.HSet(t.Context(), "brief", "colour", "red").Err())
	require.NoError(t, rdb.Expire(t.Context(), "brief", time.Hour).Err())
	require.NoError(t, rdb.RPush(t.Context(), "list", "1").Err())
	require.NoError(t, rdb.Set(t.Context(), "text", "red", 0).Err())
	for name, texts := range map[string][]string{
		"hash": {`its field "colour" is not a lock owner`, "choose another name"}, "brief": {"brief", "colour"},
		"list": {`"list" is a list, not a lock`}, "text": {"text"},
	} {
		code, stdout, stderr := ask(srv, "watch", name)
		require.Equal(t, exitHoldfast, code, stderr)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		has(t, stderr, texts...)
		require.Empty(t, stdout)
	}
	require.Equal(t, "red", rdb.HGet(t.Context(), "hash", "colour").Val())
}

func holder(owner string, count int) holdfast.Holder {
	return holdfast.Holder{Owner: owner, Count: count, Remaining: time.Second}
}

// TestBetween: what two looks make of a lock.
func TestBetween(t *testing.T) {
	at := func(kind string, token uint64, holders ...holdfast.Holder) *sight {
		return &sight{kind: kind, token: token, holders: holders, waiters: 2}
	}
	latch := func(left int) *sight { return &sight{kind: "latch", left: left, waiters: -1} }
	left := at("rlock", 7, holder("a", 1))
	left.unlocked = map[string]bool{"a": true}
	require.Equal(t, unlockedNote, between(nil, left)[0].Note)
	for what, c := range map[string]struct {
		before, now *sight
		want        string
	}{
		"free at first":     {nil, at("", 0), "free"},
		"held at first":     {nil, at("rlock", 7, holder("a", 1)), "held a"},
		"readers at first":  {nil, at("rwlock", 7, holder("a", 1), holder("b", 1)), "held a, held b"},
		"granted":           {at("", 0), at("rlock", 7, holder("a", 1)), "granted a"},
		"released":          {at("rlock", 7, holder("a", 1)), at("rlock", 7), "released a"},
		"from one to other": {at("rlock", 7, holder("b", 1)), at("rlock", 8, holder("a", 1)), "released b, granted a"},
		"entered":           {at("rlock", 7, holder("a", 1)), at("rlock", 7, holder("a", 2)), "entered a"},
		"handed on":         {at("rlock", 7, holder("a", 1)), at("rlock", 9, holder("a", 1)), "handed on a"},
		"unlocked":          {at("rlock", 7, holder("a", 1)), left, "unlocked a"},
		"still unlocked":    {left, left, ""},
		"unlocked at first": {nil, left, "held a"},
		"renewed":           {at("rlock", 7, holder("a", 1)), at("rlock", 7, holder("a", 1)), ""},
		"missed":            {at("rlock", 7), at("rlock", 9), "missed"},
		"still free":        {at("rlock", 7), at("rlock", 7), ""},
		"a reader more":     {at("rwlock", 7, holder("a", 1)), at("rwlock", 8, holder("a", 1), holder("b", 1)), "granted b"},
		"a reader less": {at("rwlock", 7, holder("a", 1), holder("b", 1)), at("rwlock", 7, holder("a", 1)),
			"released b"},
		"permits": {at("semaphore", 0, holder("a", 1)), at("semaphore", 0, holder("b", 2), holder("c", 1)),
			"released a, granted b, granted c"},
		"a latch at first":   {nil, latch(3), "counted"},
		"counted":            {latch(3), latch(2), "counted"},
		"not counted":        {latch(3), latch(3), ""},
		"a latch that opens": {latch(1), &sight{kind: "latch", waiters: -1}, "counted"},
	} {
		t.Run(what, func(t *testing.T) {
			var got []string
			for _, e := range between(c.before, c.now) {
				got = append(got, strings.TrimSpace(e.Event+" "+e.Owner))
			}
			require.Equal(t, c.want, strings.Join(got, ", "))
		})
	}
}

// TestPause: a lock is looked at when its lease ends, soon after an event, and at most fifty times a second.
func TestPause(t *testing.T) {
	w := &watcher{watchConfig: watchConfig{every: span{Duration: time.Hour}}}
	ends := func(d time.Duration) *sight { return &sight{holders: []holdfast.Holder{{Remaining: d}}} }
	require.Equal(t, time.Hour, w.pause(nil, eager))
	require.Equal(t, time.Hour, w.pause(ends(2*time.Hour), eager))
	require.Equal(t, 5001*time.Millisecond, w.pause(ends(5*time.Second), eager))
	require.Equal(t, soonest, w.pause(ends(1), eager))
	require.Equal(t, time.Hour, w.pause(ends(-1), eager), "without a lease")
	require.Equal(t, soonest, w.pause(nil, 0))
	require.Equal(t, 640*time.Millisecond, w.pause(nil, 5))
	w.every.Duration = 100 * time.Millisecond
	require.Equal(t, 100*time.Millisecond, w.pause(nil, 5))
}

// TestLines: columns for people, without colour where there is no terminal, and without anything that a terminal would obey.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	show := lines(&out)
	s := &sight{kind: "election", token: 1795615607474408, waiters: 3, leader: "a\x1b[31m\n" + strings.Repeat("x", 80)}
	owner := "90f7d261-bffb-433a-80c9-bf315a7d8e80:h1"
	require.NoError(t, show(s.of("granted", holdfast.Holder{Owner: owner, Count: 1, Remaining: 29900 * time.Millisecond})))
	require.NoError(t, show(s.of("granted", holdfast.Holder{Owner: owner, Count: 1, Remaining: 3 * time.Hour})))
	require.NoError(t, show(s.of("granted", holdfast.Holder{Owner: owner, Count: 1, Remaining: -1e6})))
	require.NoError(t, show((&sight{waiters: -1}).without("free", "")))
	labelled := s.of("granted", holdfast.Holder{Owner: owner, Count: 1})
	labelled.Label, labelled.Leader = "billing@a\x1b[31m", ""
	require.NoError(t, show(labelled))
	got := strings.Split(out.String(), "\n")
	require.Len(t, got, 7)
	require.True(t, strings.HasSuffix(got[5], `  "billing@a\x1b[31m"`), got[5])
	require.Equal(t, []string{"TIME", "EVENT", "OWNER", "TOKEN", "COUNT", "LEFT", "WAIT"}, strings.Fields(got[0]))
	require.Equal(t, []string{"granted", owner, "1795615607474408", "1", "29.9s", "3"}, strings.Fields(got[1])[1:7])
	has(t, got[1], `a\x1b[31m\nxxx`, "…")
	require.Contains(t, got[2], " 180m ")
	require.Contains(t, got[3], " none ")
	require.Equal(t, []string{"free", "-", "-", "-", "-", "?"}, strings.Fields(got[4])[1:])
	require.NotContains(t, out.String(), "\x1b")
}
