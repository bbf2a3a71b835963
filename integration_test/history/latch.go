package history

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// latch is the state of a latch as the model has it.
type latch struct {
	left int // 0: open
	set  int // which Set set it, by its number in the history
	over bool
	// how many have been taken of maybeOne and of maybeOpen, of which the first come first: a later one
	// that did something could change places with one before it that did nothing
	ones, opens int
}

// The steps of a latch. Those that may have done nothing are taken where they do something, or after the history is over, where
// nothing counts any more. Were they taken where they do nothing, too, each would double the time of the search.
const (
	setIt     step = 200 + iota // open -> set
	isSet                       // set already
	countIt                     // one less, and so many are left
	countOnce                   // one less; it did not say how many are left
	maybeSet                    // open -> set, or nothing
	maybeOne                    // one less, or nothing
	openIt                      // set -> open
	maybeOpen                   // set -> open, or nothing
	isOpen                      // open
	isLeft                      // so many are left
	ends                        // open, if nobody has opened it since that Set
	isOver                      // all that had an answer has been taken
)

var latchModel = porcupine.Model{
	Init: func() any { return latch{} },
	Step: func(state, in, _ any) (bool, any) {
		s, i := state.(latch), in.(input)
		if s.over {
			return true, s
		}
		o := &i.op
		was := s.left
		switch i.step {
		case setIt, maybeSet:
			s.left, s.set = o.Depth, o.Grant
			return was == 0, s
		case isSet:
			return was > 0, s
		case countIt, countOnce:
			s.left = max(was-1, 0)
			return i.step != countIt || s.left == o.Depth, s
		case maybeOne:
			s.left--
			s.ones++
			return was > 0 && o.Grant == s.ones, s
		case openIt:
			s.left = 0
			return was > 0, s
		case maybeOpen:
			s.left = 0
			s.opens++
			return was > 0 && o.Grant == s.opens, s
		case isOpen:
			s.left = 0
		case isLeft:
			return was == o.Depth, s
		case ends:
			s.left = 0
			return was > 0 && s.set == o.Grant, s
		case isOver:
			s.over = true
		}
		return true, s
	},
	DescribeOperation: func(in, _ any) string {
		i := in.(input)
		switch i.step {
		case ends:
			return "ends"
		case isOver:
			return "over"
		}
		return fmt.Sprintf("%s: %s %d", i.op.Kind, i.op.Result, i.op.Depth)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%d left", state.(latch).left) },
}

func linearLatch(ops []Op, c Config) []Violation {
	return linearize(ops, c, latchModel, func(ops []Op) sequence { return latchSteps(ops, c) })
}

// latchSteps turns operations of one latch, in the order of calls, into the model's. A repeated count-down tells its one count.
func latchSteps(ops []Op, c Config) (list sequence) {
	var ones, opens int
	var last int64
	for n, o := range ops {
		if o.Return != Forever {
			last = max(last, o.Return)
		}
		unknown := o.Result != OK && o.Result != Denied && o.Result != Refused
		switch {
		case o.Kind == Set && o.Result == Denied:
			list.add(isSet, o, o.Return)
		case o.Kind == Set && o.Result != Refused:
			o.Grant = n + 1
			if unknown {
				list.add(maybeSet, o, Forever)
			} else {
				list.add(setIt, o, o.Return)
			}
			if c.Stay > 0 {
				o.Call += int64(c.Stay)
				list.add(ends, o, Forever)
			}
		case o.Kind == CountDown && unknown:
			ones++
			o.Grant = ones
			list.add(maybeOne, o, Forever)
		case o.Kind == CountDown && o.Result == OK && o.Depth < 0:
			list.add(countOnce, o, o.Return)
		case o.Kind == CountDown && o.Result == OK:
			list.add(countIt, o, o.Return)
		case o.Kind == Delete && unknown, o.Kind == Wipe && unknown:
			opens++
			o.Grant = opens
			list.add(maybeOpen, o, Forever)
		case o.Kind == Delete && o.Result == OK:
			list.add(openIt, o, o.Return)
		case o.Kind == Wipe:
			list.add(isOpen, o, o.Return)
		case o.Kind == Look && o.Result == OK:
			list.add(isLeft, o, o.Return)
		case o.Kind == Wait && o.Result == OK, o.Kind == Delete && o.Result == Denied:
			o.Depth = 0
			list.add(isLeft, o, o.Return)
		}
	}
	list.add(isOver, Op{Call: last + 1}, Forever)
	return list
}

// Sleepers finds those who waited for a latch for longer than the bound while it was open, and nothing disturbed them.
func Sleepers(ops []Op, c Config) (found []Violation) {
	if c.Bound == 0 {
		return nil
	}
	for name, ops := range byName(ops) {
		open := opened(ops, c)
		for _, o := range ops {
			if o.Kind != Wait {
				continue
			}
			end := o.Return
			if end == Forever {
				end = died(o, ops).From
			}
			for _, w := range open {
				from, to := max(o.Call, w.From), min(end, w.To)
				if c.rests(o.Client, from, to) > int64(c.Bound) {
					found = append(found, Violation{"wake-up", name, "the latch was open for " + span(from, to) +
						" while this one waited", append([]Op{o}, ops...), nil})
					break
				}
			}
		}
	}
	return found
}

// opened is when a latch surely was open: from an answer that says so to the next time that somebody sets it, or may.
func opened(ops []Op, c Config) (list []Window) {
	sets := ofKind(ops, Set)
	for _, o := range ops {
		zero := o.Kind == CountDown || o.Kind == Look
		if o.Result != OK || zero && o.Depth != 0 || !zero && o.Kind != Delete && o.Kind != Wait {
			continue
		}
		w := Window{o.Return, Forever}
		for _, s := range sets {
			over := s.Return
			if s.Result != OK && s.Result != Denied || c.troubled(s) {
				over = after(over, c.Recovery+c.Late)
			}
			if s.Result != Refused && over >= o.Call {
				w.To = min(w.To, s.Call)
			}
		}
		if w.From < w.To {
			list = append(list, w)
		}
	}
	return list
}

// rests is the longest stretch of a time in which nothing disturbs a client, nor has just done so.
func (c *Config) rests(client int, from, to int64) (longest int64) {
	faults := sorted(excused(c.Local[client], c.Recovery), excused(c.Faults, c.Recovery), []Window{{to, Forever}})
	for _, f := range faults {
		longest = max(longest, min(f.From, to)-from)
		from = max(from, f.To)
	}
	return longest
}

// span is how long a time is.
func span(from, to int64) string { return time.Duration(to - from).String() }
