package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGhosts: who may be named as the holder, and when.
func TestGhosts(t *testing.T) {
	const mine, other = "uuid:h1", "uuid:h2"
	grant := Op{Kind: Lock, Owner: other, Token: 1, Result: OK, Call: 10, Return: 20}
	end := Op{Kind: Unlock, Owner: other, Token: 1, Last: true, Result: OK, Call: 100, Return: 110}
	left := Op{Kind: Lock, Asked: mine, Result: Left, Call: 30, Return: 40}
	blind := Op{Kind: Lock, Result: Left, Call: 30, Return: 40} // nobody saw as which owner
	lost := Op{Kind: End, Owner: other, Token: 1, Result: Lost, Call: 60, Return: 60}
	again := Op{Kind: Reenter, Owner: other, Asked: mine, Result: Lost, Call: 65, Return: 75} // its hold ended first
	crash := Op{Kind: Crash, Call: 50, Return: 51, Result: OK}
	fault := map[int][]Window{0: {{25, 45}}}
	for _, row := range []struct {
		name   string
		ops    []Op
		owner  string
		at     int64
		change func(*Config)
		ghost  bool
	}{
		{name: "while it asks", ops: []Op{grant, end}, owner: other, at: 10},
		{name: "while it holds", ops: []Op{grant, end}, owner: other, at: 60},
		{name: "before it asked", ops: []Op{grant, end}, owner: other, at: 9, ghost: true},
		{name: "just after", ops: []Op{grant, end}, owner: other, at: 120},
		{name: "long after", ops: []Op{grant, end}, owner: other, at: 121, ghost: true},
		{name: "long after a loss", ops: []Op{grant, lost}, owner: other, at: 71, ghost: true},
		{name: "a call that failed", ops: []Op{grant, end, left}, owner: mine, at: 50},
		{name: "long after a call that failed", ops: []Op{grant, end, left}, owner: mine, at: 51, ghost: true},
		{name: "another's call", ops: []Op{grant, end, left}, owner: "uuid:h3", at: 35, ghost: true},
		{name: "a call of an owner that was not seen", ops: []Op{grant, end, blind}, owner: mine, at: 35},
		{name: "a re-entry of what was lost", ops: []Op{grant, lost, again}, owner: mine, at: 80},
		{name: "long after one", ops: []Op{grant, lost, again}, owner: mine, at: 86, ghost: true},
		{name: "a client that was never granted anything", ops: []Op{left}, owner: mine, at: 99},
		{name: "recovers from a fault", ops: []Op{grant, end, left}, owner: mine, at: 60,
			change: func(c *Config) { c.Local = fault }},
		{name: "has recovered", ops: []Op{grant, end, left}, owner: mine, at: 61,
			change: func(c *Config) { c.Local = fault }, ghost: true},
		{name: "killed", ops: []Op{grant, crash}, owner: other, at: 51 + 2*lease},
		{name: "killed long ago", ops: []Op{grant, crash}, owner: other, at: 52 + 2*lease, ghost: true},
		{name: "closed", ops: []Op{grant, end, left}, owner: mine, at: 200,
			change: func(c *Config) { c.Closed = map[int][]Window{0: {{41, Forever}}} }},
	} {
		t.Run(row.name, func(t *testing.T) {
			for i := range row.ops {
				row.ops[i].Name = "a"
				if row.ops[i].Kind == Crash {
					row.ops[i].Name = ""
				}
			}
			c := Config{Lease: lease, Recovery: 5, Undo: 10, Samples: []Sample{{row.at, "a", row.owner}}}
			if row.change != nil {
				row.change(&c)
			}
			found := Ghosts(row.ops, c)
			require.Equal(t, row.ghost, len(found) > 0, "%v", found)
		})
	}
}
