package simulation

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// TestReplay: a seed gives the same again. Without faults the library draws no random number, so the
// whole history of plain locks comes back. With faults it does until the first retry of the library,
// whose pauses no seed reaches.
func TestReplay(t *testing.T) {
	s := drawOf(3, history.Locks) // no crowd: who of those that wait in one client runs first is not in the seed
	calm(&s)
	// else goroutines that can run at one moment run in any order: one message may wake several
	s.Fair, s.Quantum = false, 0
	first := anonymous(run(t, &World{Settings: s}).Ops)
	require.Greater(t, len(first), 50)
	require.Equal(t, first, anonymous(run(t, &World{Settings: s}).Ops))
}

// anonymous is a history without the clients' UUIDs, which are random.
func anonymous(ops []history.Op) []history.Op {
	const length = 36 // of a UUID
	for i := range ops {
		for _, owner := range []*string{&ops[i].Owner, &ops[i].Seen, &ops[i].Asked} {
			if len(*owner) > length {
				*owner = (*owner)[length:]
			}
		}
		ops[i].Error = ""
	}
	return ops
}
