package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// gate are stories of a latch.
type gate struct{ story }

func (s *gate) op(kind Kind, n int, r Result) *gate {
	s.add(Op{Of: Latches, Kind: kind, Depth: n, Result: r})
	return s
}

func (s *gate) wait(from, to int64) *gate {
	s.add(Op{Of: Latches, Client: 1, Actor: 1, Kind: Wait, Result: OK, Call: from, Return: to})
	return s
}

// count counts down to zero at a moment.
func (s *gate) count(at int64) *gate {
	s.add(Op{Of: Latches, Kind: CountDown, Result: OK, Call: at, Return: at + 1})
	return s
}

func TestGoodLatches(t *testing.T) {
	for what, s := range map[string]*gate{
		"once": new(gate).op(Set, 2, OK).op(Look, 2, OK).op(CountDown, 1, OK).op(CountDown, 0, OK).op(CountDown, 0, OK).
			op(Wait, 0, OK),
		"set already":            new(gate).op(Set, 2, OK).op(Set, 3, Denied).op(CountDown, 1, OK),
		"anew":                   new(gate).op(Set, 1, OK).op(CountDown, 0, OK).op(Set, 2, OK).op(CountDown, 1, OK),
		"taken away":             new(gate).op(Set, 1, OK).op(Delete, 0, OK).op(Delete, 0, Denied).op(Look, 0, OK),
		"maybe":                  new(gate).op(Set, 2, OK).op(CountDown, 0, Unknown).op(Look, 1, OK),
		"maybe not":              new(gate).op(Set, 2, OK).op(CountDown, 0, Unknown).op(Look, 2, OK),
		"maybe set":              new(gate).op(Set, 2, Unknown).op(CountDown, 1, OK),
		"never set":              new(gate).op(Wait, 0, OK).op(CountDown, 0, OK),
		"not told":               new(gate).op(Set, 3, OK).op(CountDown, -1, OK).op(Look, 2, OK),
		"not told, and not open": new(gate).op(Set, 2, OK).op(CountDown, -1, OK).wait(6, 40).count(35),
		"woken":                  new(gate).op(Set, 1, OK).wait(3, 20).count(18),
		"woken late":             new(gate).op(Set, 1, OK).op(CountDown, 0, OK).wait(3, 14),
		"set at once":            new(gate).op(Set, 1, OK).op(CountDown, 0, OK).op(Set, 1, OK).wait(3, 40).count(35),
		"perhaps set":            new(gate).op(Set, 1, OK).op(CountDown, 0, OK).op(Set, 1, Unknown).wait(3, 40),
		"between them":           new(gate).op(Set, 1, OK).wait(2, 9).count(5).op(Set, 1, OK),
	} {
		require.Empty(t, checks(s.ops), what)
	}
	ended := new(gate).op(Set, 2, OK).op(Look, 0, OK)
	require.NotEmpty(t, Check(ended.ops, Config{Stay: 10}), "before its end")
	require.Empty(t, Check(ended.ops, Config{Stay: 1}))
	repeated := new(gate).op(Set, 3, OK).op(CountDown, 1, OK).op(CountDown, 1, OK)
	require.NotEmpty(t, Check(repeated.ops, Config{}))
	repeated.ops[1].Repeated = true
	require.Empty(t, Check(repeated.ops, Config{}), "what it says may be of a repeat")
}

// TestManyUnknown: what is not known of many calls does not make the search long.
func TestManyUnknown(t *testing.T) {
	s := new(gate)
	for range 4 {
		s.op(Set, 9, Unknown)
		for range 4 {
			s.op(CountDown, 0, Unknown).op(CountDown, 0, Unknown).op(Delete, 0, Unknown).op(Set, 3, OK).op(Look, 2, OK)
		}
	}
	c := Config{Stay: 1000}
	require.Empty(t, Check(s.ops, c))
	found := Check(s.op(Look, 10, OK).ops, c)
	require.Len(t, found, 1)
	require.Contains(t, found[0].Text, "no order")
}

func TestBadLatches(t *testing.T) {
	for _, c := range []struct {
		what  string
		wants string
		s     *gate
	}{
		{"counted twice", "linearizability", new(gate).op(Set, 3, OK).op(CountDown, 1, OK)},
		{"counted twice, and nobody was told", "linearizability", new(gate).op(Set, 3, OK).op(CountDown, 0, Unknown).op(Look, 1, OK)},
		{"not counted", "linearizability", new(gate).op(Set, 3, OK).op(CountDown, 2, OK).op(Look, 3, OK)},
		{"not told, and not counted", "linearizability", new(gate).op(Set, 3, OK).op(CountDown, -1, OK).op(Look, 3, OK)},
		{"not told, and counted twice", "linearizability", new(gate).op(Set, 3, OK).op(CountDown, -1, OK).op(Look, 1, OK)},
		{"set twice", "linearizability", new(gate).op(Set, 3, OK).op(Set, 3, OK)},
		{"set already, and was not", "linearizability", new(gate).op(Set, 1, Denied)},
		{"a wait that returned early", "linearizability", new(gate).op(Set, 1, OK).op(Wait, 0, OK).op(CountDown, 0, OK)},
		{"taken away, and was not there", "linearizability", new(gate).op(Delete, 0, OK)},
		{"gone", "linearizability", new(gate).op(Set, 1, OK).op(Look, 0, OK)},
		{"slept on", "wake-up", new(gate).op(Set, 1, OK).op(CountDown, 0, OK).wait(3, 15)},
		{"slept on after it was taken away", "wake-up", new(gate).op(Set, 1, OK).op(Delete, 0, OK).wait(1, 15)},
	} {
		require.Equal(t, []string{c.wants}, checks(c.s.ops), c.what)
	}
	s := new(gate).op(Set, 1, OK).op(CountDown, 0, OK).wait(3, 30)
	require.Empty(t, checks(s.ops, Window{8, 16}))
	require.Equal(t, []string{"wake-up"}, checks(s.ops, Window{5, 10}))
}
