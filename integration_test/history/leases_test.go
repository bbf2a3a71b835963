package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// leaseOps are those of one grant that asked for a lease of 100.
func leaseOps(plain bool, more ...Op) (ops []Op) {
	ops = append(ops, Op{Kind: Lock, Lease: 100, Plain: plain, Call: 1, Return: 2})
	for i, o := range append(ops, more...)[1:] {
		if o.Call == 0 {
			o.Call, o.Return = int64(10*(i+1)), int64(10*(i+1))+5
		}
		ops = append(ops, o)
	}
	for i := range ops {
		o := &ops[i]
		o.Name, o.Owner, o.Token = "a", "uuid:h1", 1
		if o.Result == "" {
			o.Result = OK
		}
	}
	return ops
}

// TestLeases: what a lease may be, by what was asked for.
func TestLeases(t *testing.T) {
	state := func(left int64) Op { return Op{Kind: State, Seen: "uuid:h1", Left: left} }
	last := func(deadline int64) Op { return Op{Kind: Unlock, Plain: true, Last: true, Deadline: deadline} }
	inner := Op{Kind: Reenter, Lease: 100}
	for name, row := range map[string]struct {
		ops []Op
		bad bool
	}{
		"as asked for":                {ops: leaseOps(false, state(100))},
		"rounded up to a millisecond": {ops: leaseOps(false, state(1e6))},
		"longer":                      {ops: leaseOps(false, state(1e6+1)), bad: true},
		"another's":                   {ops: leaseOps(false, Op{Kind: State, Seen: "uuid:h2", Left: 1000})},
		"extended":                    {ops: leaseOps(false, Op{Kind: Extend, Lease: 200}, state(200))},
		"extended, perhaps": {ops: leaseOps(false, Op{Kind: Extend, Lease: 200, Result: Unknown},
			state(200))},
		"entered for longer":            {ops: leaseOps(false, Op{Kind: Reenter, Lease: 200}, state(200))},
		"plain":                         {ops: leaseOps(true, last(102))},
		"plain, and it goes on":         {ops: leaseOps(true, last(103)), bad: true},
		"plain, and lost before":        {ops: leaseOps(true, Op{Kind: End, Result: Lost, Deadline: Forever})},
		"renewed":                       {ops: leaseOps(false, last(1000))},
		"renewed within":                {ops: leaseOps(true, inner, last(1000))},
		"renewed within, and ended":     {ops: leaseOps(true, inner, Op{Kind: Unlock}, last(125))},
		"it goes on after that":         {ops: leaseOps(true, inner, Op{Kind: Unlock}, last(126)), bad: true},
		"nobody knows whether it ended": {ops: leaseOps(true, inner, Op{Kind: Unlock, Result: Unknown}, last(1000))},
		"entered without renewal either": {ops: leaseOps(true, Op{Kind: Reenter, Lease: 100, Plain: true}, last(1000)),
			bad: true},
	} {
		require.Equal(t, row.bad, len(Leases(row.ops, Config{})) > 0, name)
	}
	require.Empty(t, Leases(leaseOps(false, state(200)), Config{Claim: 200}), "a claim")
}

// TestKinds: another kind is refused as long as the name is held.
func TestKinds(t *testing.T) {
	mixed := func(r Result) Op { return Op{Kind: Mixed, Result: r} }
	unlock := Op{Kind: Unlock, Last: true}
	for r, wrong := range map[Result]int{Refused: 0, Denied: 1, OK: 1} {
		require.Len(t, Kinds(leaseOps(false, mixed(r), unlock), Config{}), wrong, r)
	}
	require.Empty(t, Kinds(leaseOps(false, Op{Kind: End, Result: Lost}, mixed(Left)), Config{}), "not held any more")
}

// TestOvertaken: who is handed the lock came before all who wait in its client.
func TestOvertaken(t *testing.T) {
	handed := Op{Kind: Lock, Name: "a", Result: OK, Handed: true, Owner: "x", Token: 1, Call: 50, Return: 60}
	waits := Op{Kind: Lock, Name: "a", Result: OK, Owner: "y", Token: 2, Call: 10, Return: 100}
	require.Len(t, Overtaken([]Op{waits, handed}, Config{Slack: 5}), 1)
	for name, change := range map[string]func(*Op){
		"later":          func(o *Op) { o.Call = 51 },
		"at once":        func(o *Op) { o.Call = 45 },
		"left before":    func(o *Op) { o.Return, o.Result = 60, Left },
		"another client": func(o *Op) { o.Client = 1 },
		"another name":   func(o *Op) { o.Name = "b" },
		"does not wait":  func(o *Op) { o.Kind = Try },
	} {
		o := waits
		change(&o)
		require.Empty(t, Overtaken([]Op{o, handed}, Config{Slack: 5}), name)
	}
	for at, excused := range map[int64]bool{8: false, 9: true, 60: true, 61: false} { // 1 to recover
		c := Config{Slack: 5, Recovery: 1, Local: map[int][]Window{0: {{at, at}}}}
		require.Equal(t, excused, len(Overtaken([]Op{waits, handed}, c)) == 0, at)
	}
}
