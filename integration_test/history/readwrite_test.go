package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// rw are stories of a read-write lock.
type rw struct{ story }

func (s *rw) op(o Op) *rw {
	o.Of = ReadWrite
	if o.Result == "" {
		o.Result = OK
	}
	s.add(o)
	return s
}

func (s *rw) write(owner string, token uint64) *rw {
	return s.op(Op{Kind: Lock, Owner: owner, Token: token})
}
func (s *rw) read(owner string, token uint64) *rw {
	return s.op(Op{Kind: Lock, Owner: owner, Token: token, Shared: true})
}

// leave is the last unlock of a side.
func (s *rw) leave(owner string, token uint64, shared bool) *rw {
	return s.op(Op{Kind: Unlock, Owner: owner, Token: token, Shared: shared, Last: true})
}

// inner is an operation of one that reads or writes.
func (s *rw) inner(kind Kind, owner string, token uint64, shared bool, depth int) *rw {
	return s.op(Op{Kind: kind, Owner: owner, Token: token, Shared: shared, Depth: depth})
}

func TestGoodReadersAndWriters(t *testing.T) {
	for what, s := range map[string]*rw{
		"readers together": new(rw).read("a", 1).read("b", 1).leave("a", 1, true).leave("b", 1, true).write("c", 2),
		"re-entered": new(rw).read("a", 1).inner(Reenter, "a", 1, true, 0).inner(State, "a", 1, true, 2).
			inner(Unlock, "a", 1, true, 0).inner(State, "a", 1, true, 1).leave("a", 1, true).write("b", 2),
		"a writer reads, and goes on reading": new(rw).write("a", 1).read("a", 1).leave("a", 1, false).read("b", 1).
			leave("a", 1, true).leave("b", 1, true).write("b", 2),
		"refused": new(rw).read("a", 1).op(Op{Kind: Try, Result: Denied}).leave("a", 1, true).write("b", 2).
			op(Op{Kind: Try, Shared: true, Result: Denied}).op(Op{Kind: Try, Result: Denied}),
		"a reader that died": new(rw).read("a", 1).op(Op{Kind: Crash}).
			op(Op{Client: 1, Kind: Lock, Owner: "b", Token: 2, Call: 5, Return: 110}),
		"reads twice with one token": new(rw).op(Op{Kind: Lock, Owner: "a", Token: 1, Shared: true, Grant: 1}).
			op(Op{Kind: Unlock, Owner: "a", Token: 1, Shared: true, Grant: 1, Last: true}).
			op(Op{Kind: Lock, Owner: "a", Token: 1, Shared: true, Grant: 2}).
			op(Op{Kind: Unlock, Owner: "a", Token: 1, Shared: true, Grant: 2, Last: true}).write("b", 2),
		"refused to read while one waits to write": new(rw).read("a", 1).
			op(Op{Client: 1, Kind: Lock, Owner: "b", Token: 2, Call: 3, Return: 20}).
			op(Op{Client: 2, Kind: Try, Shared: true, Result: Denied, Call: 5, Return: 6}).
			op(Op{Kind: Unlock, Owner: "a", Token: 1, Shared: true, Last: true, Call: 10, Return: 19}),
		"refused to write under a read": new(rw).read("a", 1).
			op(Op{Kind: Upgrade, Owner: "a", Token: 1, Shared: true, Result: Refused, Error: "it would wait for itself"}),
		"not asked, because the client was closed": new(rw).read("a", 1).op(Op{Kind: Upgrade, Owner: "a", Token: 1, Shared: true, Result: Closed}),
		"a write that nobody knows of": new(rw).write("a", 1).leave("a", 1, false).
			op(Op{Kind: Lock, Result: Left}).read("b", 3),
	} {
		require.Empty(t, checks(s.ops), what)
	}
}

func TestBadReadersAndWriters(t *testing.T) {
	for _, c := range []struct {
		what  string
		wants []string
		s     *rw
	}{
		{"a reader beside a writer", []string{"exclusion", "linearizability"}, new(rw).write("a", 1).read("b", 1).
			leave("a", 1, false)},
		{"a writer beside a reader", []string{"exclusion", "linearizability"}, new(rw).read("a", 1).write("b", 2).
			leave("a", 1, true)},
		{"two writers", []string{"exclusion", "linearizability"}, new(rw).write("a", 1).write("b", 2)},
		{"trusted beyond another's grant", []string{"exclusion"}, new(rw).read("a", 1).op(Op{Kind: Wipe}).write("b", 2).
			op(Op{Kind: End, Owner: "a", Token: 1, Shared: true, Result: Lost, Deadline: 90})},
		{"a write with the token of the last", []string{"tokens", "linearizability"},
			new(rw).write("a", 1).leave("a", 1, false).write("b", 1)},
		{"a read with an older token", []string{"linearizability", "read token"},
			new(rw).write("a", 2).leave("a", 2, false).read("b", 1)},
		{"a read with a token of nobody's", []string{"read token"}, new(rw).write("a", 1).leave("a", 1, false).read("b", 2)},
		{"a read with the token of a later write", []string{"tokens", "linearizability", "read token"},
			new(rw).read("a", 2).leave("a", 2, true).write("b", 2).leave("b", 2, false).write("c", 2)},
		{"counted twice", []string{"linearizability"}, new(rw).read("a", 1).inner(Reenter, "a", 1, true, 0).
			inner(State, "a", 1, true, 3)},
		{"an inner unlock that ended all", []string{"linearizability"}, new(rw).write("a", 1).inner(Reenter, "a", 1, false, 0).
			inner(Unlock, "a", 1, false, 0).inner(State, "a", 1, false, 0)},
		{"refused while free", []string{"linearizability"}, new(rw).read("a", 1).leave("a", 1, true).
			op(Op{Kind: Try, Result: Denied})},
		{"refused to read beside readers", []string{"linearizability"}, new(rw).read("a", 1).
			op(Op{Client: 1, Kind: Try, Shared: true, Result: Denied})},
		{"a downgrade that ended the read", []string{"linearizability"}, new(rw).write("a", 1).read("a", 1).
			leave("a", 1, false).inner(State, "a", 1, true, 0)},
		{"granted to write under a read", []string{"upgrade"}, new(rw).read("a", 1).
			op(Op{Kind: Upgrade, Owner: "a", Token: 1, Shared: true}).leave("a", 1, true)},
		{"waited for itself", []string{"upgrade"}, new(rw).read("a", 1).
			op(Op{Kind: Upgrade, Owner: "a", Token: 1, Shared: true, Result: Left}).leave("a", 1, true)},
		{"a reader that slept on", []string{"wake-up"}, new(rw).write("a", 1).
			op(Op{Client: 1, Kind: Lock, Owner: "b", Token: 1, Shared: true, Call: 3, Return: 50}).
			op(Op{Kind: Unlock, Owner: "a", Token: 1, Last: true, Call: 5, Return: 6})},
		{"a writer that slept on", []string{"wake-up"}, new(rw).read("a", 1).
			op(Op{Client: 1, Kind: Lock, Owner: "b", Token: 2, Call: 3, Return: 50}).
			op(Op{Kind: Unlock, Owner: "a", Token: 1, Shared: true, Last: true, Call: 5, Return: 6})},
	} {
		require.ElementsMatch(t, c.wants, checks(c.s.ops), c.what)
	}
}

// TestTurns: a reader that comes after one who waits to write does not go first. What decides is when
// it called, and whether anybody wrote meanwhile.
func TestTurns(t *testing.T) {
	waits := func() *rw {
		return new(rw).op(Op{Kind: Lock, Owner: "a", Token: 1, Shared: true, Call: 1, Return: 2}).
			op(Op{Client: 1, Actor: 1, Kind: Queue, Owner: "b", Call: 4, Return: 5}).
			op(Op{Client: 1, Actor: 1, Kind: Lock, Owner: "b", Token: 2, Call: 3, Return: 100})
	}
	asked := func(s *rw) *rw { // in its last attempt the writer is granted it
		return s.op(Op{Client: 1, Actor: 1, Kind: Queue, Owner: "b", Result: Denied, Call: 90, Return: 95})
	}
	for _, c := range []struct {
		what  string
		s     *rw
		wrong bool
	}{
		{"came later", asked(waits()).op(Op{Client: 2, Actor: 2, Kind: Lock, Owner: "c", Token: 1, Shared: true, Call: 6, Return: 50}), true},
		{"did not wait", asked(waits()).op(Op{Client: 2, Actor: 2, Kind: Try, Owner: "c", Token: 1, Shared: true, Call: 6, Return: 50}), true},
		{"a guest", asked(waits()).op(Op{Client: 2, Actor: 2, Kind: Lock, Owner: "c", Token: 1, Shared: true, Guest: true, Call: 6, Return: 50}), false},
		{"came before", asked(waits()).op(Op{Client: 2, Actor: 2, Kind: Lock, Owner: "c", Token: 1, Shared: true, Call: 5, Return: 50}), false},
		{"in the writer's last moment", asked(waits()).op(Op{Client: 2, Actor: 2, Kind: Lock, Owner: "c", Token: 1, Shared: true, Call: 6, Return: 90}), false},
		{"somebody wrote", asked(waits()).op(Op{Client: 2, Actor: 2, Kind: Lock, Owner: "c", Token: 1, Shared: true, Call: 6, Return: 50}).
			op(Op{Client: 3, Actor: 3, Kind: Lock, Owner: "d", Token: 1, Call: 20, Return: 30}), false},
		{"somebody wrote already", asked(waits()).op(Op{Client: 2, Actor: 2, Kind: Lock, Owner: "c", Token: 1, Shared: true, Call: 6, Return: 50}).
			op(Op{Client: 3, Actor: 3, Kind: Lock, Owner: "d", Token: 1, Call: 1, Return: 2}).
			op(Op{Client: 3, Actor: 3, Kind: Unlock, Owner: "d", Token: 1, Last: true, Call: 5, Return: 6}), false},
		{"somebody had written", asked(waits()).op(Op{Client: 2, Actor: 2, Kind: Lock, Owner: "c", Token: 1, Shared: true, Call: 6, Return: 50}).
			op(Op{Client: 3, Actor: 3, Kind: Lock, Owner: "d", Token: 1, Call: 1, Return: 2}).
			op(Op{Client: 3, Actor: 3, Kind: Unlock, Owner: "d", Token: 1, Last: true, Call: 4, Return: 5}), true},
		{"somebody may have written", asked(waits()).op(Op{Client: 2, Actor: 2, Kind: Lock, Owner: "c", Token: 1, Shared: true, Call: 6, Return: 50}).
			op(Op{Client: 3, Actor: 3, Kind: Lock, Result: Left, Call: 20, Return: 30}), false},
		{"re-enters", asked(waits()).op(Op{Client: 2, Actor: 2, Kind: Reenter, Owner: "c", Token: 1, Shared: true, Call: 6, Return: 50}), false},
	} {
		require.Equal(t, c.wrong, len(Turns(c.s.ops, Config{Lease: lease})) > 0, c.what)
	}
	s := asked(waits()).op(Op{Client: 2, Actor: 2, Kind: Lock, Owner: "c", Token: 1, Shared: true, Call: 6, Return: 50})
	require.Empty(t, Turns(s.ops, Config{Local: map[int][]Window{1: {{10, 20}}}}), "what the writer sent before may come late")
	require.NotEmpty(t, Turns(s.ops, Config{Local: map[int][]Window{2: {{10, 20}}}}))
}
