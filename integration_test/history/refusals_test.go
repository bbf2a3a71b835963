package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRefusals: what a refusal has to say, and when.
func TestRefusals(t *testing.T) {
	const owner = "4bb565b9-7975-530a-16d4-42315f83f777:h7"
	thing := Op{Kind: Foreign, Name: "a", Seen: "no lock", Call: 500e9, Return: 600e9}
	try := func(at int64, r Result, text string) []Op {
		return []Op{thing, {Kind: Try, Name: "a", Result: r, Error: text, Call: at, Return: at + 1e9}}
	}
	for name, row := range map[string]struct {
		ops []Op
		bad bool
	}{
		"names the holder":          {ops: try(1e9, Denied, "held by "+owner+", whose lease ...")},
		"does not":                  {ops: try(1e9, Denied, "not acquired"), bad: true},
		"says what is there":        {ops: try(550e9, Denied, "that is no lock")},
		"says so with an error":     {ops: try(550e9, Refused, "that is no lock")},
		"says what is not there":    {ops: try(550e9, Denied, "held by "+owner), bad: true},
		"was granted all the same":  {ops: try(550e9, OK, ""), bad: true},
		"may have come before it":   {ops: try(499e9, OK, "")},
		"or been refused before it": {ops: try(499e9, Denied, "")},
		"has no answer":             {ops: try(550e9, Unknown, "timeout")},
	} {
		require.Equal(t, row.bad, len(Refusals(row.ops)) > 0, name)
	}
	require.Equal(t, []Sample{{At: 2e9, Name: "a", Owner: owner}},
		Named(try(1e9, Denied, "held by "+owner+", whose lease has 1s left")))
}
