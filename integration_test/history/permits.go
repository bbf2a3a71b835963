package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// MostPermits finds moments at which owners trusted too many permits, and holds of other numbers than asked for. Holders keep
// theirs when the number shrinks: what counts is that at the grant of the last of those who have some.
func MostPermits(ops []Op, c Config) (found []Violation) {
	for name, ops := range byName(ops) {
		numbers := c.numbers(ops)
		all := tenures(ops, 0) // by return
		for i, t := range all {
			if t.op.Total != 0 && t.op.Total != t.op.Depth {
				found = append(found, Violation{"permits", name, fmt.Sprintf("%d were granted where %d were asked for",
					t.op.Depth, t.op.Total), []Op{t.op}, nil})
			}
			sum, last, inside := 0, t.op.Call, []Op(nil)
			for j := range all[:i+1] {
				other := &all[j]
				if other.until > t.op.Return {
					sum, last, inside = sum+other.op.Depth, max(last, other.op.Call), append(inside, other.op)
				}
			}
			if most := mostOf(numbers, last, t.op.Return); sum > most {
				found = append(found, Violation{"permits", name, fmt.Sprintf("%d are out, and there are %d", sum, most), inside, nil})
			}
		}
	}
	return found
}

// mostOf is how many permits there may have been in a time, at the most.
func mostOf(numbers []number, from, to int64) (most int) {
	for _, w := range numbers {
		if w.from <= to && w.to >= from {
			most = max(most, w.n)
		}
	}
	return most
}

// number is a time in which there may have been so many permits.
type number struct {
	from, to int64
	n        int
}

func (c *Config) numbers(ops []Op) (list []number) {
	sets := ofKind(ops, Set)
	until := func(from int64) int64 { // until when it may last what stood at a moment
		end := Forever
		for _, o := range sets {
			if o.Result == OK && o.Call > from {
				end = min(end, o.Return)
			}
		}
		return end
	}
	list = append(list, number{-Forever, until(-Forever), c.Permits})
	for _, o := range sets {
		if o.Result == Refused {
			continue
		}
		said := o.Return
		if o.Result != OK || c.troubled(o) {
			said = after(said, c.Recovery+c.Late) // a request of it may come after others
		}
		list = append(list, number{o.Call, until(said), o.Total})
	}
	return list
}

// Free finds lost permits: not all are free at the end, which is a State without an owner whose Last says so.
func Free(ops []Op, c Config) (found []Violation) {
	for name, ops := range byName(ops) {
		for _, o := range ops {
			if o.Kind != State || o.Owner != "" || o.Result != OK || !o.Last {
				continue
			}
			known := slices.ContainsFunc(c.numbers(ops), func(n number) bool { return n.n == o.Total && n.to >= o.Call })
			if o.Depth != o.Total || !known {
				found = append(found, Violation{"lost permits", name, fmt.Sprintf("%d of %d are free at the end", o.Depth, o.Total),
					ops, nil})
			}
		}
	}
	return found
}

// permitWakeUps is [WakeUps] of those who wait for permits: none is due while fewer are free than any in the queue wants.
func permitWakeUps(ops []Op, c Config) []Violation {
	return c.sleepers(ops, func(ops []Op, _ Op) []Window {
		return sorted(scarce(ops, c), faulty(ops, c))
	})
}

// change is a moment at which more or fewer permits are out, or are wanted by somebody.
type change struct {
	at        int64
	out, want int // want: by so many
	begins    bool
}

// scarce is when fewer permits may have been free than one wants who may be in the queue.
func scarce(ops []Op, c Config) (list []Window) {
	var all []change
	for _, t := range tenures(ops, c.Lease) {
		all = append(all, change{at: t.op.Return, out: t.op.Depth}, change{at: t.released, out: -t.op.Depth})
	}
	for _, o := range crowd(ops, c) {
		all = append(all, change{at: o.Call, want: o.Total, begins: true}, change{at: o.Return, want: o.Total})
	}
	numbers := c.numbers(ops)
	for _, n := range numbers { // what it is for sure is looked for below
		all = append(all, change{at: n.from}, change{at: n.to})
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	out, wants := 0, make(map[int]int)
	for i, e := range all {
		if out += e.out; e.want > 0 && e.begins {
			wants[e.want]++
		} else if e.want > 0 {
			if wants[e.want]--; wants[e.want] == 0 {
				delete(wants, e.want)
			}
		}
		most := 0
		for n := range wants {
			most = max(most, n)
		}
		to := Forever
		if i+1 < len(all) {
			to = all[i+1].at
		}
		if e.at < to && leastOf(numbers, e.at, to)-out < most {
			list = append(list, Window{e.at, to})
		}
	}
	return list
}

// leastOf is how many permits there were in a time, at least.
func leastOf(numbers []number, from, to int64) int {
	least := -1
	for _, w := range numbers {
		if w.from < to && w.to > from && (least < 0 || w.n < least) {
			least = w.n
		}
	}
	return max(least, 0)
}

// crowd are those who may have had places in the queue, each with its time.
func crowd(ops []Op, c Config) (list []Op) {
	for _, o := range ops {
		if o.Kind != Lock {
			continue
		}
		switch {
		case o.Return == Forever:
			o.Return = after(died(o, ops).To, c.Place)
		case c.troubled(o):
			o.Return = after(o.Return, c.Recovery+c.Place)
		case o.Result != OK && o.Result != Refused:
			o.Return = after(o.Return, c.Recovery)
		}
		list = append(list, o)
	}
	return list
}

// faulty is when nobody can be expected to get anything: faults, and what those may have been granted who left.
func faulty(ops []Op, c Config) []Window {
	return occupied(slices.DeleteFunc(slices.Clone(ops), func(o Op) bool {
		return o.granted() || o.Result == Refused || o.Kind == Unlock || o.Kind == End
	}), c)
}

// permits is the state of a semaphore as the model has it.
type permits struct {
	total int
	out   holders
	token uint64 // the last one granted
}

// The steps that only permits have.
const (
	recount step = 100 + iota // SetPermits. Never refused, so one of unknown outcome can be left for the end
	tooMany                   // there are not so many
	census                    // there are so many, and so many are free
	howMany                   // there are so many
)

// permitsModel has n permits, the leases of which may end.
func permitsModel(n int) porcupine.Model {
	return porcupine.Model{
		Init:              func() any { return permits{total: n} },
		Step:              func(state, in, _ any) (bool, any) { return state.(permits).step(in.(input)) },
		DescribeOperation: func(in, _ any) string { return describe(in.(input)) },
		DescribeState: func(state any) string {
			s := state.(permits)
			return fmt.Sprintf("%d, out: %s", s.total, s.out.describe())
		},
	}
}

func (s permits) step(i input) (bool, any) {
	o := &i.op
	id := i.id
	n := s.out.count(id)
	switch i.step {
	case grant:
		if n > 0 || s.out.sum()+o.Depth > s.total || o.Token <= s.token && !o.tokenless() {
			return false, s
		}
		s.out, s.token = s.out.with(id, o.Depth), max(s.token, o.Token)
	case refuse:
		return s.out.sum()+o.Total > s.total, s
	case release:
		s.out = s.out.with(id, 0)
		return n > 0, s
	case expire:
		s.out = s.out.with(id, 0)
	case look:
		return n > 0 && n == o.Depth && (o.Total == 0 || o.Total == s.total), s
	case free:
		s.out = ""
	case recount:
		s.total = o.Total
	case tooMany:
		return o.Total > s.total, s
	case census:
		return o.Total == s.total && o.Depth == s.total-s.out.sum(), s
	case howMany:
		return o.Total == s.total, s
	}
	return true, s
}

func linearPermits(ops []Op, c Config) []Violation {
	return linearize(ops, c, permitsModel(c.Permits), func(ops []Op) sequence { return permitSteps(ops, c) })
}

// permitSteps are those of a lock, and what only permits have.
func permitSteps(ops []Op, c Config) sequence {
	waiting := crowd(ops, c)
	list := slices.DeleteFunc(steps(ops, c), func(o porcupine.Operation) bool {
		i := o.Input.(input)
		return i.step == refuse && overlaps(waiting, i.op, func(Op) bool { return true })
	})
	unsure := doubtful(ops, c)
	for _, o := range ops {
		switch {
		case o.Kind == Set && o.Result == OK:
			list.add(recount, o, o.Return)
		case o.Kind == Set && o.Result != Refused:
			list.add(recount, o, Forever)
		case (o.Kind == Lock || o.Kind == Try) && o.Result == Refused && IsTooMany(o.Error):
			list.add(tooMany, o, o.Return)
		case o.Kind == State && o.Result == OK && o.Owner == "" && !unsure.ghost(o) && !overlaps(waiting, o, isWaiter):
			list.add(census, o, o.Return)
		case o.Kind == State && o.Result == OK && o.Owner == "":
			list.add(howMany, o, o.Return)
		}
	}
	return list
}

// isWaiter reports whether an operation is of one who may have been handed something and not know it yet.
func isWaiter(o Op) bool { return o.Result != OK }
