//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
)

// Quorum locks: five masters apart. A process has a proxy of its own before each, and its faults hit some of them.

// startMasters makes a target of independent masters, whose clocks are so far ahead; those that are not told of are right.
func startMasters(tb testing.TB, p redistest.Program, ahead ...time.Duration) *target {
	t := &target{name: "quorum-" + p.Name, mode: quorum, clock: haveCompiler()}
	opts := []redistest.Option{redistest.Exec(p.Path)}
	if t.clock {
		opts = append(opts, redistest.Clock())
	}
	t.nodes = redistest.StartMasters(tb, 5, opts...)
	for _, n := range t.nodes {
		t.addrs = append(t.addrs, n.Addr())
	}
	if t.clock {
		for i, d := range ahead {
			t.nodes[i].MoveClock(tb, d)
			t.nodes[i].Restart() // it tells since when it runs by the clock
		}
	}
	t.begun = time.Now()
	return t
}

// apart draws clocks of masters: half of them are right, the others months ahead or behind.
func apart(rng *rand.Rand) (ahead []time.Duration) {
	const months = 100 * 24 * time.Hour
	for range 5 {
		ahead = append(ahead, time.Duration(rng.IntN(2))*between(rng, -months, months))
	}
	return ahead
}

// quorumLock is a lock that nobody can ask for its state.
type quorumLock struct{ *redlock.Mutex }

func (quorumLock) State(context.Context) (holdfast.State, error) {
	return holdfast.State{}, errors.ErrUnsupported // which counts for nothing in a history
}

// openQuorum makes a client of each master.
func (j *job) openQuorum(opts *holdfast.Options, rng *rand.Rand) (cfg workload.Config, shut func(context.Context) error,
	err error) {
	var clients []*holdfast.Client
	var rdbs []redis.UniversalClient
	cfg.Granted = &workload.Granted{}
	nerves := j.nerves(rng)
	for _, addr := range j.Addrs {
		rdb := j.connectTo(addr)
		rdb.AddHook(nerves.Hook())
		rdb.AddHook(cfg.Granted.Hook())
		c, err := holdfast.New(rdb, opts)
		if err != nil {
			return cfg, nil, err
		}
		clients, rdbs = append(clients, c), append(rdbs, rdb)
	}
	var own []holdfast.Option
	if j.Alone {
		own = append(own, holdfast.NoHandoff())
	}
	cfg.Lock = func(name string) workload.Locker { return quorumLock{redlock.New(clients, name, own...)} }
	return cfg, func(ctx context.Context) (err error) {
		for _, c := range clients {
			err = errors.Join(err, workload.Closed(c.Close(ctx)))
		}
		for _, rdb := range rdbs {
			err = errors.Join(err, rdb.Close())
		}
		return err
	}, nil
}

// withoutSplits leaves out refused attempts, since candidates refuse each other, and looks at a state that quorums do not have.
func withoutSplits(ops []history.Op) []history.Op {
	return slices.DeleteFunc(ops, func(o history.Op) bool {
		return o.Kind == history.Try && o.Result == history.Denied || o.Kind == history.State
	})
}

// stalled reports whether a client was granted nothing from a moment on.
func stalled(ops []history.Op, client int, from int64) (found []history.Violation) {
	for _, o := range ops {
		if o.Client == client && (o.Kind == history.Lock || o.Kind == history.Try) && o.Result == history.OK &&
			o.Return >= from {
			return nil
		}
	}
	return []history.Violation{{Check: "progress", Text: fmt.Sprintf("client %d was granted nothing after the storm", client)}}
}

// TestStalled: what the check accepts and refuses.
func TestStalled(t *testing.T) {
	ops := []history.Op{
		{Client: 1, Kind: history.Lock, Result: history.OK, Return: 9},
		{Client: 1, Kind: history.Lock, Result: history.Unknown, Return: 12},
		{Client: 2, Kind: history.Try, Result: history.OK, Return: 11},
		{Client: 2, Kind: history.Reenter, Result: history.OK, Return: 12},
		{Client: 3, Kind: history.Reenter, Result: history.OK, Return: 12},
	}
	require.Len(t, stalled(ops, 1, 10), 1, "granted before, and then in vain")
	require.Empty(t, stalled(ops, 2, 10))
	require.Len(t, stalled(ops, 3, 10), 1, "a re-entry is no grant")
}

// some are one of a list, a minority of it, or all.
func some[T any](rng *rand.Rand, list []T) []T {
	n := len(list)
	if rng.IntN(3) > 0 {
		n = 1 + rng.IntN((n-1)/2)
	}
	hit := slices.Clone(list)
	rng.Shuffle(len(hit), func(i, k int) { hit[i], hit[k] = hit[k], hit[i] })
	return hit[:n]
}

// hit are the servers that a fault is made at: all, or of a quorum's masters a minority, one or two of five.
func (w *weather) hit() []*redistest.Server {
	hit := slices.Clone(w.t.nodes)
	if w.t.mode != quorum {
		return hit
	}
	w.rng.Shuffle(len(hit), func(i, k int) { hit[i], hit[k] = hit[k], hit[i] })
	return hit[:1+w.rng.IntN((len(hit)-1)/2)]
}

// grown is how old masters are to be, so that one which starts anew is not taken for a new one among new ones.
const grown = 4 * time.Second

// old waits until the masters are so old.
func (w *weather) old(ctx context.Context) bool {
	return workload.Sleep(ctx, time.Until(w.t.begun.Add(grown)))
}

// restart has masters lose their data, and so a hold that reached few others: for a lease nobody can tell whether it was alone.
func (w *weather) restart(ctx context.Context, hit []*redistest.Server) {
	from := now()
	for _, n := range hit {
		n.Kill()
	}
	workload.Sleep(ctx, between(w.rng, 0, 400*time.Millisecond))
	for _, n := range hit {
		n.Restart()
	}
	w.emptied = time.Now()
	w.lapses = append(w.lapses, history.Window{From: from, To: now() + int64(2*w.Lease)})
}

// linksPlan is a storm in which each process never reaches one of the masters, now this one and now that, and somebody else's
// keys stand where locks would. None of that is a reason to wait for long, nor to lose a hold: a majority is always there.
func linksPlan(seed uint64, d time.Duration) plan {
	p := quorumPlan(seed, d)
	p.linkDown = true
	p.local = []string{"next-link", "cut", "drop-reply", "pause", "kill", "reopen"}
	p.global = []string{"foreign", "kill-clients", "kill-pubsub", "script-flush"}
	return p
}

// nextLink mends the process's broken link to a master and breaks the next: it refuses connections or carries nothing.
func (s *slot) nextLink() {
	if s.mend != nil {
		s.mend()
	} else {
		s.down = s.rng.IntN(len(s.proxies))
	}
	s.down = (s.down + 1) % len(s.proxies)
	p := s.proxies[s.down]
	if s.rng.IntN(2) == 0 {
		p.Stop()
		s.mend = p.Start
		return
	}
	p.Silence(true)
	s.mend = func() {
		p.Silence(false)
		p.CutAll()
	}
}

// foreignLife is for how long somebody else's keys stand at most: longer than a waiter may sleep, and no longer than the calm.
const foreignLife = bound + time.Second

// foreign puts keys that are no locks of ours at one master for a time, where the names in use are free. That excuses nothing.
func (w *weather) foreign(ctx context.Context) {
	d := between(w.rng, 100*time.Millisecond, foreignLife)
	n := w.t.nodes[w.rng.IntN(len(w.t.nodes))]
	const script = `
for _, name in ipairs(KEYS) do
  if redis.call('EXISTS', name) == 0 then
    if ARGV[2] == '1' then redis.call('SET', name, 'theirs') else redis.call('HSET', name, 'theirs', '1') end
    redis.call('PEXPIRE', name, ARGV[1])
  end
end`
	command := []string{"EVAL", script, fmt.Sprint(2 * w.Names)}
	for _, epoch := range []int64{0, 1} { // they are in use when the next ones are
		for i := range w.Names {
			command = append(command, nameOf(periodAt(now(), w.Period)+epoch, i))
		}
	}
	_, err := n.Try(append(command, fmt.Sprint(d.Milliseconds()), fmt.Sprint(w.rng.IntN(2)))...)
	require.NoError(w.tb, err)
	workload.Sleep(ctx, d)
}

// periodAt is the number of a period.
func periodAt(at int64, period time.Duration) int64 { return at / int64(period) }

// nameOf is one of the names that are in use in a period.
func nameOf(period int64, i int) string { return fmt.Sprintf("chaos:%d:%d", period, i) }
