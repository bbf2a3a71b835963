package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPeriods: who is granted a lock that was to stay taken, and when.
func TestPeriods(t *testing.T) {
	first := Op{Kind: Lock, Name: "a", Result: OK, Owner: "x", Token: 1, Lease: 202, Least: 101, Call: 0, Return: 20,
		Deadline: 217}
	unlock := Op{Kind: Unlock, Name: "a", Result: OK, Owner: "x", Token: 1, Last: true, Call: 22, Return: 23}
	next := func(at int64) Op {
		return Op{Kind: Lock, Name: "a", Result: OK, Owner: "y", Token: 2, Lease: 10, Call: 1, Return: at}
	}
	lost := unlock
	lost.Result = Unknown
	short := first
	short.Lease, short.Deadline = 10, 25
	plain := first
	plain.Least = 0
	for name, row := range map[string]struct {
		ops    []Op
		config Config
		bad    bool
	}{
		"when it is over":             {ops: []Op{first, unlock, next(120)}},
		"too early":                   {ops: []Op{first, unlock, next(119)}, bad: true},
		"of a short lease":            {ops: []Op{short, unlock, next(115)}},
		"or too early":                {ops: []Op{short, unlock, next(114)}, bad: true},
		"while it is held":            {ops: []Op{first, next(22)}, bad: true},
		"not unlocked: by the server": {ops: []Op{first, lost, next(115)}},
		"but not earlier":             {ops: []Op{first, lost, next(114)}, bad: true},
		"not to stay":                 {ops: []Op{plain, unlock, next(30)}},
		"by a clock that jumped":      {ops: []Op{first, unlock, next(115)}, config: Config{Jumps: 5}},
		"and not so far":              {ops: []Op{first, unlock, next(114)}, config: Config{Jumps: 5}, bad: true},
		"data were lost":              {ops: []Op{first, unlock, next(119)}, config: Config{Lapses: []Window{{120, 130}}}},
		"but before":                  {ops: []Op{first, unlock, next(119)}, config: Config{Lapses: []Window{{-9, -1}}}, bad: true},
		"forced out":                  {ops: []Op{first, {Kind: Force, Name: "a", Result: OK}, next(22)}},
	} {
		require.Equal(t, row.bad, len(Periods(row.ops, row.config)) > 0, name)
	}
}
