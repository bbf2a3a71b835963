package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

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
		case (o.Kind == Lock || o.Kind == Try) && o.Result == Refused && strings.Contains(o.Error, "HOLDFAST_PERMITS"):
			list.add(tooMany, o, o.Return)
		case o.Kind == State && o.Result == OK && o.Owner == "" && !unsure.ghost(o) && !overlaps(waiting, o, isWaiter):
			list.add(census, o, o.Return)
		case o.Kind == State && o.Result == OK && o.Owner == "":
			list.add(howMany, o, o.Return)
		}
	}
	return list
}

// isWaiter reports whether an operation is of one who may have been handed something and not know it
// yet.
func isWaiter(o Op) bool { return o.Result != OK }
