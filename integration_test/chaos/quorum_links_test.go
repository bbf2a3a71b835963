//go:build linux

package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
)

// linksPlan is a storm in which each process never reaches one of the masters, now this one and now
// that, and somebody else's keys stand where locks would. None of that is a reason to wait for
// long, nor to lose a hold: a majority is always there.
func linksPlan(seed uint64, d time.Duration) plan {
	p := quorumPlan(seed, d)
	p.linkDown = true
	p.local = []string{"next-link", "cut", "drop-reply", "pause", "kill", "reopen"}
	p.global = []string{"foreign", "kill-clients", "kill-pubsub", "script-flush"}
	return p
}

// nextLink mends the link to the master that the process could not reach, and takes the next one
// down: connections are refused, or nothing arrives. It stays like that.
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

// foreignLife is for how long somebody else's keys stand at most: longer than a waiter may sleep,
// and no longer than the calm.
const foreignLife = bound + time.Second

// foreign puts keys that are no locks of ours, for a time, where nobody holds the names that are in
// use, at one master: a string, or a hash with a field that is no owner. That excuses nobody.
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
	sleep(ctx, d)
}

// periodAt is the number of a period.
func periodAt(at int64, period time.Duration) int64 { return at / int64(period) }

// nameOf is one of the names that are in use in a period.
func nameOf(period int64, i int) string { return fmt.Sprintf("chaos:%d:%d", period, i) }
