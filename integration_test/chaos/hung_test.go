//go:build linux

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// hungPlan: the first master of a cluster stops for two leases, and clients wait for its answers
// for longer than that.
func hungPlan(seed uint64) plan {
	p := plan{seed: seed, lease: 4 * time.Second, storm: 11 * time.Second, calm: time.Second, processes: 2, actors: 8,
		names:  9,
		period: time.Minute, hold: 2 * time.Second, recovery: 2500 * time.Millisecond, tidy: true}
	p.shape = func(*rand.Rand) shape { return shape{Patience: 30 * time.Second} }
	p.course = func(ctx context.Context, w *weather) {
		sleep(ctx, 2*time.Second) // until there are holds
		from := now()
		w.t.nodes[0].Pause()
		sleep(ctx, 2*p.lease)
		w.t.nodes[0].Resume()
		w.faults = append(w.faults, history.Window{From: from, To: now()})
	}
	return p
}

// lostElsewhere finds holds that were renewed and lost although their master was there all the
// time.
func lostElsewhere(tb testing.TB, c *redistest.Cluster, ops []history.Op) (found []history.Violation) {
	tb.Helper()
	renewed := make(map[uint64]bool) // by token
	there := make(map[string]bool)   // by name
	for _, o := range ops {
		if (o.Kind == history.Lock || o.Kind == history.Try) && o.Result == history.OK {
			renewed[o.Token] = !o.Plain
			if _, known := there[o.Name]; !known {
				there[o.Name] = c.Master(tb, o.Name) != c.Nodes[0]
			}
		}
	}
	for _, o := range ops {
		if o.Kind == history.End && o.Result == history.Lost && renewed[o.Token] && there[o.Name] {
			found = append(found, history.Violation{Check: "lost", Name: o.Name, Text: "its master was there",
				Ops: []history.Op{o}})
		}
	}
	return found
}

// TestHungNode: what one of three masters does not answer is not felt by those who hold locks at
// the others. Without lanes for each it is.
func TestHungNode(t *testing.T) {
	seed, _ := parameters(t)
	t.Logf("replay: %s=%d go test -race ./chaos -run %s", seedEnv, seed, t.Name())
	program := redistest.Programs(t)[0]
	c := redistest.StartCluster(t, 3, 0, redistest.Exec(program.Path),
		redistest.Args("--cluster-require-full-coverage", "no"))
	hung := &target{name: "cluster-" + program.Name, mode: cluster, nodes: c.Nodes, addrs: c.Addrs(), cluster: c}
	p := hungPlan(seed)
	with, found := p.run(t, hung)
	history.Report(t, found, fmt.Sprintf("%s=%d go test -race ./chaos -run %s", seedEnv, seed, t.Name()))
	t.Logf("proof: chaos: a node of a cluster hangs: %s", &with)
	if testing.Short() {
		return
	}
	p.without = []string{"Lanes"}
	var off figures
	for range 6 { // it is chance whether anything is held there when it stops
		f, _ := p.run(t, hung)
		off.add(f)
		if hit(off, []string{"lost"}) {
			break
		}
		p.seed++
	}
	t.Logf("proof: chaos: the same without lanes: %s", list(off.violations))
	require.Positive(t, off.violations["lost"], "control")
}
