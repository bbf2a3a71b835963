package redisson

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/child"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rwlock"
)

// victimEnv makes the test binary a client that locks, waits and is killed: a victim as JSON. It writes its holds' owners.
const victimEnv = "HOLDFAST_TEST_VICTIM"

// victim is what such a process does. Locks are numbers of kinds and names.
type victim struct {
	Mode   string
	Addrs  []string
	Holds  []lockOf
	Waits  []lockOf
	Reader string // the name of a lock that it reads
}

type lockOf struct {
	Kind int
	Name string
}

// dies does what the environment asks for, and reports whether it asks for anything.
func dies() bool {
	text := os.Getenv(victimEnv)
	if text == "" {
		return false
	}
	var v victim
	err := json.Unmarshal([]byte(text), &v)
	if err == nil {
		err = v.run()
	}
	fmt.Println("error:", err)
	return true
}

func (v *victim) run() error {
	c, err := holdfast.New(v.connect(), &holdfast.Options{Lease: short})
	if err != nil {
		return err
	}
	ctx := context.Background()
	for _, l := range v.Holds {
		if _, err := kinds[l.Kind].make(c, l.Name).TryLock(ctx); err != nil {
			return err
		}
	}
	if _, err := rwlock.New(c, v.Reader).TryRLock(ctx); err != nil {
		return err
	}
	for _, l := range v.Waits {
		go func() { _, _ = kinds[l.Kind].make(c, l.Name).Lock(ctx) }()
	}
	fmt.Println("ready", c.ID())
	select {} // until it is killed
}

func (v *victim) connect() redis.UniversalClient {
	switch v.Mode {
	case topology.Sentinel.String():
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.SentinelMaster, SentinelAddrs: v.Addrs})
	case topology.Cluster.String():
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: v.Addrs})
	}
	return redis.NewClient(&redis.Options{Addr: v.Addrs[0]})
}

// startVictim starts the process and returns the id of its client and what kills it.
func startVictim(t *testing.T, top topology.Topology, v victim) (id string, kill func()) {
	v.Mode, v.Addrs = top.Kind().String(), topology.Addrs(top)
	text, err := json.Marshal(v)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+string(text))
	p := child.Start(t, cmd)
	require.NoError(t, kindtest.Err(fmt.Sscanf(p.Says(), "ready %s", &id)))
	return id, p.Kill
}

// TestDeath: processes of either side are killed while they hold and wait, and the other side, and their own, go on.
func TestDeath(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, top topology.Topology) {
		f := newFleet(t, top)
		t.Run("Redisson's", func(t *testing.T) {
			t.Parallel()
			javaDies(t, f)
		})
		t.Run("ours", func(t *testing.T) {
			t.Parallel()
			oursDie(t, f)
		})
		t.Run("Redisson's is stopped", func(t *testing.T) {
			t.Parallel()
			f.tell(t, kinds[0], "stopped", javaStops)
		})
	}
	topology.EachLocal(t, topology.Single|topology.Sentinel, test)
	// where it matters whether the server knows who listens, so with and without sharded channels
	topology.EachOutermost(t, topology.Cluster, test)
}

// javaDies kills a process of Redisson's.
func javaDies(t *testing.T, f *fleet) {
	w := Start(t)
	brief := w.Connect(t, f.top, Settings{Watchdog: millis(short)})
	var after []func()
	each := func(k int, what string, run func(s *story)) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*Patience)
		t.Cleanup(cancel)
		s := f.in(ctx, t, kinds[k], "java dies:"+kinds[k].theirs+":"+what)
		run(s)
	}
	for k := range kinds {
		each(k, "held, ours waits", func(s *story) {
			s.javaLocks(brief.Thread(t), "lock")
			c := s.wait(s.mutex(0))
			after = append(after, func() { s.mustUnlock(s.got(c)) })
		})
		each(k, "held, Redisson's waits", func(s *story) {
			s.javaLocks(brief.Thread(t), "lock")
			j := s.thread(0)
			p := s.javaWaits(j, "lock")
			after = append(after, func() {
				require.NoError(s, p.Reply(t).Err())
				s.mustBe(j.Owner, 1)
			})
		})
		each(k, "waited for", func(s *story) {
			h := s.must(s.mutex(0).Lock(s.ctx))
			s.javaWaits(brief.Thread(t), "lock")
			after = append(after, func() {
				s.mustUnlock(h)
				h := s.must(s.mutex(1).Lock(s.ctx))
				s.mustUnlock(h)
				s.javaLocks(s.thread(0), "lock")
			})
		})
	}
	each(3, "read", func(s *story) {
		require.NoError(s, s.side(brief.Thread(t), "read", "lock").Err())
		require.Equal(s, 1, s.holders())
		c := s.wait(s.mutex(0))
		after = append(after, func() { s.mustUnlock(s.got(c)) })
	})
	each(2, "first in a queue", func(s *story) {
		h := s.must(s.mutex(0).Lock(s.ctx))
		s.javaWaits(brief.Thread(t), "lock")
		want, got := s.line(0, "GJG")
		after = append(after, func() {
			s.mustUnlock(h)
			require.Equal(s, want, got())
		})
	})
	each(2, "first in a queue behind Redisson's", func(s *story) {
		j := s.thread(0)
		s.javaLocks(j, "lock")
		s.javaWaits(brief.Thread(t), "lock")
		want, got := s.line(0, "GJG")
		after = append(after, func() {
			require.NoError(s, s.ask(j, "unlock").Err())
			require.Equal(s, want, got())
		})
	})
	w.Kill()
	for _, f := range after {
		f()
	}
}

// oursDie kills a process of ours.
func oursDie(t *testing.T, f *fleet) {
	name := func(k int, what string) string { return "ours die:" + kinds[k].theirs + ":" + what }
	v := victim{Reader: name(3, "read")}
	for k := range kinds {
		v.Holds = append(v.Holds, lockOf{k, name(k, "held, Redisson's waits")}, lockOf{k, name(k, "held, ours waits")})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*Patience)
	t.Cleanup(cancel)
	queues := []*story{f.in(ctx, t, kinds[2], name(2, "queue")), f.in(ctx, t, kinds[2], name(2, "queue behind Redisson's"))}
	h := kindtest.Take(ctx, t, queues[0].mutex(0).Lock)
	j := queues[1].thread(0)
	queues[1].javaLocks(j, "lock")
	for _, q := range queues {
		v.Waits = append(v.Waits, lockOf{2, q.name})
	}
	id, kill := startVictim(t, f.top, v)
	var after []func()
	for k := range kinds {
		s := f.in(ctx, t, kinds[k], name(k, "held, Redisson's waits"))
		state, err := s.mutex(0).State(ctx)
		require.NoError(t, err)
		require.Contains(t, state.Owner, id)
		j := s.thread(0)
		p := s.javaWaits(j, "lock")
		after = append(after, func() {
			require.NoError(s, p.Reply(t).Err())
			s.mustBe(j.Owner, 1)
		})
		ours := f.in(ctx, t, kinds[k], name(k, "held, ours waits"))
		c := ours.wait(ours.mutex(0))
		after = append(after, func() {
			ours.mustUnlock(ours.got(c))
			ours.javaLocks(ours.thread(0), "lock")
		})
	}
	read := f.in(ctx, t, kinds[3], v.Reader)
	w := read.thread(0)
	p := read.javaWaits(w, "lock")
	for i, q := range queues {
		q.until("the victim waits", func() bool { return q.waiting() == 1 })
		want, got := q.line(0, "JGJ")
		after = append(after, func() {
			if i == 0 {
				q.mustUnlock(h)
			} else {
				require.NoError(q, q.ask(j, "unlock").Err())
			}
			require.Equal(q, want, got())
		})
	}
	kill()
	for _, f := range after {
		f()
	}
	require.NoError(t, p.Reply(t).Err())
	read.mustBe(w.Owner, 1)
}

// javaStops stops a process of Redisson's for longer than its lease while it holds a lock. Another
// owner has it meanwhile, and is not disturbed when the first one goes on.
func javaStops(s *story) {
	w := Start(s.T)
	j := w.Connect(s.T, s.top, Settings{Watchdog: millis(short)}).Thread(s.T)
	s.javaLocks(j, "lock")
	w.Pause(s.T)
	c := s.wait(s.mutex(0))
	h := s.got(c)
	s.mustBe(h.Owner(), 1)
	p := s.start(j, "unlock")
	w.Resume(s.T)
	require.True(s, p.Reply(s.T).Threw("IllegalMonitorStateException"))
	s.renewed(j)
	s.mustBe(h.Owner(), 1)
	require.NoError(s, h.Context().Err())
	s.mustUnlock(h)
	s.javaLocks(j, "lock")
	require.NoError(s, s.ask(j, "unlock").Err())
	s.nothingLeft()
}

// renewed waits until another lock of a thread has been renewed: so much time its watchdog has had.
func (s *story) renewed(j *Thread) {
	name := s.name + ":beside"
	require.NoError(s, j.Do(s.T, Ask{Op: "lock", Kind: s.theirs, Name: name}).Err())
	last := time.Duration(0)
	s.until("renewed", func() bool {
		left := s.rdb.PTTL(s.ctx, name).Val()
		defer func() { last = left }()
		return last > 0 && left > last
	})
	require.NoError(s, j.Do(s.T, Ask{Op: "unlock", Kind: s.theirs, Name: name}).Err())
}
