package election_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestCluster: in a cluster, for names in several slots, with and without a tag.
func TestCluster(t *testing.T) {
	level.ForAll(t)
	c := redistest.StartCluster(t, 3, 0)
	a, b := newClient(t, c.Client(t), nil), newClient(t, c.Client(t), nil)
	for i := range 4 {
		for _, format := range []string{"e%d", "{e%d}:tagged"} {
			name := fmt.Sprintf(format, i)
			all := [2]*election.Election{election.New(a, name), election.New(b, name)}
			w, stop := watch(t, all[1])
			succeeds(t, all, w)
			stop()
		}
	}
}
