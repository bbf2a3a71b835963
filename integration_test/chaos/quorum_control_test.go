//go:build linux

package chaos

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
	lockkeys "github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// quorumDirections are storms for the defences of quorum locks, of which each misses one.
func quorumDirections() []directed {
	// Votes of a minority that are not given back stand for the whole lease, and many ask at once.
	withdraw := plan{lease: 10 * time.Second, storm: 2 * time.Second, calm: 500 * time.Millisecond, processes: 4,
		actors: 2, alone: true,
		names: 2, period: time.Second, recovery: 2500 * time.Millisecond, tidy: true}
	// The master that both halves reach loses its data while one of them holds the lock, and then
	// the other half asks. In the first lease after that there is nobody who can have it.
	restarts := plan{lease: time.Second, storm: 5 * time.Second, calm: 500 * time.Millisecond, processes: 4, actors: 2,
		alone: true,
		names: 1, period: time.Minute, hold: 150 * time.Millisecond, recovery: 4 * time.Second, parted: true,
		gap: 100 * time.Millisecond, global: []string{"restart-middle"}}
	// The same, and nobody has to connect anew.
	kept := restarts
	kept.kept = 1
	// One master has keys of somebody else to the end, and each process lacks another one. Names
	// are given up soon, and then nobody releases them any more, which would wake those who wait.
	taken := plan{lease: time.Second, storm: 2 * time.Second, calm: bound + 2*time.Second, processes: 3, actors: 4,
		alone: true, names: 4, period: 500 * time.Millisecond, recovery: 2500 * time.Millisecond, linkDown: true,
		course: occupied, tidy: true}
	// Requests that have been given up, and come when all is over.
	late := plan{lease: time.Minute, storm: 1500 * time.Millisecond, calm: 2 * time.Second, processes: 3, actors: 4,
		alone: true, names: 3, period: time.Second, recovery: 2500 * time.Millisecond, tidy: true,
		local: []string{"keep-request"}, gap: 100 * time.Millisecond}
	// Clients whose wall clocks are wrong, and masters that forget the tokens of names that nobody
	// uses.
	clocks := plan{lease: 10 * time.Second, storm: 3500 * time.Millisecond, calm: 500 * time.Millisecond, processes: 4,
		actors: 2, alone: true, names: 2, period: 400 * time.Millisecond, cycle: 4, recovery: 2500 * time.Millisecond,
		walls: time.Hour, course: forgetful, tidy: true}
	// Locks that are to stay taken for a while, whatever is lost or late.
	stays := quorumPlan(0, 2*time.Second)
	stays.alone, stays.staying, stays.progress, stays.calm = true, 2, false, 500*time.Millisecond
	stays.global = []string{"pause", "kill-clients", "script-flush"}
	return []directed{
		{"Withdraw", []string{"left behind", "wake-up"}, withdraw, nil},
		{"Restarts", []string{"exclusion"}, restarts, nil},
		{"Heard", []string{"exclusion"}, kept, nil},
		{"LastWord", []string{"wake-up"}, taken, nil},
		{"late votes", []string{"left behind"}, late, nil},
		{"Stay", []string{"period"}, stays, nil},
		{"Clocks", []string{"tokens"}, clocks, mastersApart},
	}
}

// occupied has somebody else's keys at the first master, for the names of the storm and to the end
// of the calm.
func occupied(ctx context.Context, w *weather) {
	for end := time.Now().Add(w.rest); ctx.Err() == nil; sleep(ctx, w.period) {
		w.occupy(w.t.nodes[0], time.Until(end))
	}
}

// forgetful has all masters lose the tokens of names that are not in use, as those that nobody
// locked for long.
func forgetful(ctx context.Context, w *weather) {
	const script = `
for i = 1, #KEYS, 2 do
  if redis.call('EXISTS', KEYS[i]) == 0 then redis.call('DEL', KEYS[i + 1]) end
end`
	for ; ctx.Err() == nil; sleep(ctx, w.period) {
		command := []string{"EVAL", script, strconv.Itoa(2 * w.names)}
		for i := range w.names {
			name := nameOf(periodAt(now()+2*int64(w.period), w.period, w.cycle), i)
			command = append(command, name, lockkeys.For(name).Token)
		}
		for _, n := range w.t.nodes {
			n.Command(w.tb, command...)
		}
	}
}

// mastersApart are masters of which two are ahead of the others: so much is a minority, and it is
// that one by which tokens must not go.
func mastersApart(tb testing.TB) *target {
	const day = 24 * time.Hour
	return startMasters(tb, redistest.Programs(tb)[0], 0, 2*day, 0, 50*day)
}

// TestQuorumControls is TestControls for quorum locks.
func TestQuorumControls(t *testing.T) {
	all := quorumDirections()
	if testing.Short() {
		all = slices.DeleteFunc(all, func(d directed) bool { return d.defence != "Withdraw" })
	}
	seed, _ := parameters(t)
	t.Logf("replay: %s=%d go test ./chaos -run %s", seedEnv, seed, t.Name())
	shared := startMasters(t, redistest.Programs(t)[0])
	targets := make(map[string]*target)
	for _, d := range all { // they age while others are in use
		targets[d.defence] = shared
		if d.start != nil {
			targets[d.defence] = d.start(t)
		}
	}
	table := []string{fmt.Sprintf("proof: chaos of quorums: %-10s %-20s %s", "defence", "violations with it",
		"without it")}
	for _, d := range all {
		t.Run(d.defence, func(t *testing.T) {
			p := d.plan
			p.seed = seed
			target := targets[d.defence]
			sleep(t.Context(), time.Until(target.begun.Add(grown)))
			with, found := p.run(t, target)
			history.Report(t, found, "none: with all defences there are no violations, or the storm shows nothing")
			p.without = []string{d.defence}
			var off figures
			for range 15 { // it is chance, after all
				f, _ := p.run(t, target)
				off.add(f)
				for _, n := range target.nodes {
					n.Command(t, "FLUSHALL") // what was left behind is not to trouble the next
				}
				if hit(off, d.expect) {
					break
				}
				p.seed++
			}
			table = append(table, fmt.Sprintf("proof:   %-30s %-20s %s", d.defence, list(with.violations),
				list(off.violations)))
			t.Logf("with: %s; without: %s", &with, &off)
			require.True(t, hit(off, d.expect), "none of the checks %v noticed that it was missing: %s", d.expect, &off)
		})
	}
	t.Log(strings.Join(table, "\n"))
}
