package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// sem are stories of a semaphore of three permits.
type sem struct{ story }

func (s *sem) op(o Op) *sem {
	o.Of = Permits
	if o.Result == "" {
		o.Result = OK
	}
	s.add(o)
	return s
}

func (s *sem) take(owner string, token uint64, n int) *sem {
	return s.op(Op{Kind: Lock, Owner: owner, Token: token, Depth: n, Total: n})
}

func (s *sem) give(owner string, token uint64) *sem {
	return s.op(Op{Kind: Unlock, Owner: owner, Token: token, Last: true})
}

// guest takes permits as a client of Redisson's, which gets no token.
func (s *sem) guest(owner string, n int) *sem {
	return s.op(Op{Kind: Lock, Owner: owner, Depth: n, Total: n, Guest: true})
}
func (s *sem) set(n int) *sem { return s.op(Op{Kind: Set, Total: n}) }
func (s *sem) state(free, of int, last bool) *sem {
	return s.op(Op{Kind: State, Depth: free, Total: of, Last: last})
}

func permitChecks(s *sem, faults ...Window) (failed []string) {
	seen := map[string]bool{}
	for _, v := range Check(s.ops, Config{Lease: lease, Bound: 10, Recovery: 5, Permits: 3, Faults: faults}) {
		if !seen[v.Check] {
			failed = append(failed, v.Check)
		}
		seen[v.Check] = true
	}
	return failed
}

func TestGoodPermits(t *testing.T) {
	for what, s := range map[string]*sem{
		"together": new(sem).take("a", 1, 1).take("b", 2, 2).give("a", 1).take("c", 3, 1).give("b", 2).state(2, 3, false),
		"guests":   new(sem).guest("a", 1).take("b", 1, 1).guest("c", 1).give("b", 1).give("a", 0).take("d", 2, 2),
		"a guest that passes": new(sem).take("a", 1, 2).
			op(Op{Client: 1, Actor: 1, Kind: Queue, Owner: "b", Call: 4, Return: 5}).
			op(Op{Client: 1, Actor: 1, Kind: Lock, Owner: "b", Token: 3, Depth: 2, Total: 2, Call: 3, Return: 60}).
			op(Op{Client: 2, Actor: 2, Kind: Lock, Owner: "c", Depth: 1, Total: 1, Guest: true, Call: 6, Return: 8}).
			op(Op{Client: 2, Actor: 2, Kind: Unlock, Owner: "c", Last: true, Guest: true, Call: 50, Return: 51}).
			op(Op{Kind: Unlock, Owner: "a", Token: 1, Last: true, Call: 50, Return: 59}),
		"refused":     new(sem).take("a", 1, 2).op(Op{Kind: Try, Total: 2, Result: Denied}).give("a", 1).state(3, 3, true),
		"too many":    new(sem).op(Op{Kind: Lock, Total: 4, Result: Refused, Error: "HOLDFAST_PERMITS"}),
		"more":        new(sem).set(4).take("a", 1, 4),
		"fewer":       new(sem).take("a", 1, 3).set(2).state(-1, 2, false).give("a", 1).take("b", 2, 2),
		"lost":        new(sem).take("a", 1, 3).op(Op{Kind: End, Owner: "a", Token: 1, Result: Lost}).take("b", 2, 3),
		"maybe fewer": new(sem).op(Op{Kind: Set, Total: 2, Result: Unknown}).take("a", 1, 3),
		"for one who wants many": new(sem).take("a", 1, 2).
			op(Op{Client: 1, Actor: 1, Kind: Lock, Owner: "b", Token: 2, Depth: 3, Total: 3, Call: 3, Return: 60}).
			op(Op{Client: 2, Actor: 2, Kind: Lock, Owner: "c", Token: 3, Depth: 1, Total: 1, Call: 4, Return: 80}).
			op(Op{Kind: Unlock, Owner: "a", Token: 1, Last: true, Call: 50, Return: 59}).
			op(Op{Client: 1, Actor: 1, Kind: Unlock, Owner: "b", Token: 2, Last: true, Call: 70, Return: 79}),
	} {
		require.Empty(t, permitChecks(s), what)
	}
}

func TestBadPermits(t *testing.T) {
	for _, c := range []struct {
		what  string
		wants []string
		s     *sem
	}{
		{"too many are out", []string{"permits", "linearizability"}, new(sem).take("a", 1, 2).take("b", 2, 2)},
		{"too many after they were made fewer", []string{"permits", "linearizability"},
			new(sem).set(2).take("a", 1, 2).take("b", 2, 1)},
		{"not all", []string{"permits"}, new(sem).op(Op{Kind: Lock, Owner: "a", Token: 1, Depth: 1, Total: 2})},
		{"a token twice", []string{"linearizability", "tokens"}, new(sem).take("a", 1, 1).take("b", 1, 1)},
		{"an old token", []string{"linearizability", "tokens"}, new(sem).take("a", 2, 1).take("b", 1, 1)},
		{"too many with a guest's", []string{"permits", "linearizability"}, new(sem).guest("a", 2).take("b", 1, 2)},
		{"a guest that has too many", []string{"permits", "linearizability"}, new(sem).take("b", 1, 2).guest("a", 2)},
		{"no token, and no guest", []string{"linearizability", "tokens"}, new(sem).take("a", 0, 1)},
		{"refused while enough are free", []string{"linearizability"}, new(sem).take("a", 1, 1).
			op(Op{Kind: Try, Total: 2, Result: Denied})},
		{"refused as too many", []string{"linearizability"},
			new(sem).op(Op{Kind: Lock, Total: 3, Result: Refused, Error: "HOLDFAST_PERMITS"})},
		{"given back twice", []string{"linearizability"}, new(sem).take("a", 1, 1).give("a", 1).state(4, 3, false)},
		{"one is lost", []string{"linearizability", "lost permits"}, new(sem).take("a", 1, 2).give("a", 1).state(2, 3, true)},
		{"their number is lost", []string{"linearizability", "lost permits"}, new(sem).set(4).state(3, 3, true)},
		{"another number than one asked for", []string{"linearizability"}, new(sem).take("a", 1, 2).
			op(Op{Kind: State, Owner: "a", Token: 1, Seen: "a", Depth: 1, Total: 3})},
		{"slept on", []string{"wake-up"}, new(sem).take("a", 1, 3).
			op(Op{Client: 1, Actor: 1, Kind: Lock, Owner: "b", Token: 2, Depth: 1, Total: 1, Call: 3, Return: 60}).
			op(Op{Kind: Unlock, Owner: "a", Token: 1, Last: true, Call: 5, Return: 6})},
		{"slept on, and another was refused", []string{"wake-up"}, new(sem).take("a", 1, 3).
			op(Op{Client: 1, Actor: 1, Kind: Lock, Owner: "b", Token: 2, Depth: 1, Total: 1, Call: 3, Return: 60}).
			op(Op{Client: 2, Actor: 2, Kind: Lock, Total: 4, Result: Refused, Error: "HOLDFAST_PERMITS", Call: 7, Return: 8}).
			op(Op{Kind: Unlock, Owner: "a", Token: 1, Last: true, Call: 5, Return: 6})},
		{"overtaken by one who wants fewer", []string{"fifo"}, new(sem).take("a", 1, 2).
			op(Op{Client: 1, Actor: 1, Kind: Queue, Owner: "b", Call: 4, Return: 5}).
			op(Op{Client: 1, Actor: 1, Kind: Lock, Owner: "b", Token: 3, Depth: 2, Total: 2, Call: 3, Return: 60}).
			op(Op{Client: 2, Actor: 2, Kind: Lock, Owner: "c", Token: 2, Depth: 1, Total: 1, Call: 6, Return: 8}).
			op(Op{Kind: Unlock, Owner: "a", Token: 1, Last: true, Call: 50, Return: 59})},
	} {
		require.ElementsMatch(t, c.wants, permitChecks(c.s), c.what)
	}
	late := new(sem).op(Op{Kind: Set, Total: 2, Result: Unknown, Call: 1, Return: 2}).set(4).take("a", 1, 4)
	require.Empty(t, permitChecks(late))
}
