package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/live"
	"github.com/holdfast-go/holdfast/inspect"
)

// sorting is by what "top" sorts, the worst first.
type sorting struct {
	name, key string // as --sort has it; the key that chooses it
	about     string
	compare   func(a, b *live.Row) int
}

// orders are in the sequence in which the key s goes through them. The first is the default.
var orders = []sorting{
	{"waiters", "w", "most waiters first", func(a, b *live.Row) int { return cmp.Compare(b.Waiting(), a.Waiting()) }},
	{"oldest", "o", "who has had it for longest first", func(a, b *live.Row) int { return compareTimes(a.Lock.Granted(), b.Lock.Granted()) }},
	{"grants", "g", "most grants in a second first", func(a, b *live.Row) int {
		return cmp.Or(cmp.Compare(b.Rate.PerSecond, a.Rate.PerSecond), cmp.Compare(b.Lock.Token, a.Lock.Token))
	}},
	{"left", "l", "whose lease ends next first", func(a, b *live.Row) int { return cmp.Compare(ends(&a.Lock), ends(&b.Lock)) }},
	{"problems", "p", "what looks wrong first", func(a, b *live.Row) int {
		return cmp.Compare(len(b.Lock.Problems), len(a.Lock.Problems))
	}},
	{"name", "n", "by name", func(_, _ *live.Row) int { return 0 }},
}

func orderNamed(name string) (at int, ok bool) {
	at = slices.IndexFunc(orders, func(o sorting) bool { return o.name == name })
	return at, at >= 0
}

func orderNames() string {
	names := make([]string, len(orders))
	for i, o := range orders {
		names[i] = o.name
	}
	return strings.Join(names, ", ")
}

// sortRows sorts in place. Rows that are alike are sorted by age, then by name, so that they stay where
// they are.
func sortRows(rows []*live.Row, o sorting, reverse bool) {
	slices.SortFunc(rows, func(a, b *live.Row) int {
		first := o.compare(a, b)
		if o.name == "waiters" && first == 0 {
			first = compareTimes(a.Lock.Granted(), b.Lock.Granted())
		}
		if first == 0 {
			first = cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Server, b.Server))
		}
		if reverse {
			return -first
		}
		return first
	})
}

// compareTimes has the unknown time last.
func compareTimes(a, b time.Time) int {
	switch {
	case a.IsZero() || b.IsZero():
		return cmp.Compare(boolean(a.IsZero()), boolean(b.IsZero()))
	default:
		return a.Compare(b)
	}
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ends is when a lease ends, as far from now as can be for one that has no end.
func ends(l *inspect.Lock) time.Duration {
	left := l.Remaining
	if len(l.Holders) > 0 {
		left = l.Holders[0].Remaining
	}
	if left < 0 {
		return 1<<63 - 1
	}
	return left
}

// fits reports whether a name is meant by what was typed: a pattern, or a part of the name.
func fits(filter, name string) bool {
	if !strings.ContainsAny(filter, `*?[\`) {
		return strings.Contains(name, filter)
	}
	return inspect.Matches(filter, name)
}
