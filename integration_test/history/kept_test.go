package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// keptOps are two grants of a client of which the second was of the kept lock, and one who waits in
// another client from a moment on.
func keptOps(waits int64) []Op {
	const owner = "4bb565b9-7975-530a-16d4-42315f83f777:k7"
	return []Op{
		{Name: "a", Kind: Lock, Owner: owner, Token: 1, Keep: 50, Result: OK, Call: 10, Return: 20},
		{Name: "a", Kind: Unlock, Owner: owner, Token: 1, Last: true, Result: OK, Call: 30, Return: 40},
		{Name: "a", Kind: Lock, Owner: owner, Token: 2, Keep: 50, Handed: true, Result: OK, Call: 60, Return: 61},
		{Name: "a", Kind: Unlock, Owner: owner, Token: 2, Last: true, Result: OK, Call: 70, Return: 80},
		{Name: "a", Kind: Lock, Client: 1, Actor: 1, Result: Left, Call: waits, Return: 200},
	}
}

// TestKept: what was handed on to one who waited is not counted.
func TestKept(t *testing.T) {
	ops := keptOps(200)
	require.Equal(t, 1, Kept(ops))
	ops[2].Call = 35
	require.Zero(t, Kept(ops))
	ops[2].Call, ops[2].Handed = 60, false
	require.Zero(t, Kept(ops))
}

// TestKeptIsNoGhost: a lock stands for nobody for as long as it may be kept, and no longer.
func TestKeptIsNoGhost(t *testing.T) {
	const owner = "4bb565b9-7975-530a-16d4-42315f83f777:k7"
	ghosts := func(at int64) int {
		return len(Ghosts(keptOps(200)[:4], Config{Lease: lease, Recovery: 5, Undo: 10, Samples: []Sample{{at, "a", owner}}}))
	}
	require.Zero(t, ghosts(140))
	require.Equal(t, 1, ghosts(141))
}

// TestKeptAndWaitedFor: who waits calls a kept lock back, but not where a fault meets its client.
func TestKeptAndWaitedFor(t *testing.T) {
	c := Config{Lease: 100, Recovery: 5, Bound: 20}
	require.NotEmpty(t, WakeUps(keptOps(90), c))
	c.Local = map[int][]Window{0: {{100, 110}}}
	require.Empty(t, WakeUps(keptOps(90), c))
}

// TestKeptRefuses: a kept lock is a reason for a refusal.
func TestKeptRefuses(t *testing.T) {
	refused := func(at int64) []Violation {
		ops := append(keptOps(200), Op{Name: "a", Kind: Try, Client: 1, Actor: 2, Result: Denied, Call: at, Return: at + 1})
		return Linearizable(ops, Config{Lease: 100, Recovery: 5})
	}
	require.Empty(t, refused(100))
	require.NotEmpty(t, refused(150))
}

// TestKeptUntilTheCrash: that a client was killed later is no reason why a lock was not kept before.
func TestKeptUntilTheCrash(t *testing.T) {
	ops := append(keptOps(200),
		Op{Name: "a", Kind: Try, Client: 1, Actor: 2, Result: Denied, Call: 100, Return: 101},
		Op{Kind: Crash, Call: 110, Return: 111, Result: OK})
	require.Zero(t, len(Linearizable(ops, Config{Lease: 100, Recovery: 5})))
}
