package history

import (
	"fmt"
	"time"
)

// Violation is a promise that a history shows broken.
type Violation struct {
	Check   string // "exclusion", "tokens", "linearizability", "wake-up", "fifo", ...
	Name    string // of the lock
	Text    string
	Ops     []Op   // those that contradict each other, or all of the name
	Picture []byte // of linearizability: an HTML page
}

// Exclusion finds owners that trusted their holds of one name at the same moment.
func Exclusion(ops []Op, _ Config) (found []Violation) {
	for name, ops := range byName(ops) {
		var last tenure // of those that began so far, the one that ends last
		for _, t := range tenures(ops, 0) {
			if last.op.Owner != "" && t.op.Return < last.until && t.until > t.op.Return {
				found = append(found, Violation{"exclusion", name, fmt.Sprintf("two holders for %s",
					time.Duration(min(t.until, last.until)-t.op.Return)), []Op{last.op, t.op}, nil})
			}
			if last.op.Owner == "" || t.until > last.until {
				last = t
			}
		}
	}
	return found
}

// Tokens finds grants with equal tokens, and grants with smaller ones than a grant that had
// returned before they were asked for.
func Tokens(ops []Op, _ Config) (found []Violation) {
	for name, ops := range byName(ops) {
		seen := make(map[uint64]Op)
		var grants []Op // by return
		for _, t := range tenures(ops, 0) {
			if t.op.tokenless() {
				continue
			}
			if other, twice := seen[t.op.Token]; twice {
				found = append(found, Violation{"tokens", name, "granted twice", []Op{other, t.op}, nil})
			}
			seen[t.op.Token] = t.op
			grants = append(grants, t.op)
		}
		greatest, next := Op{}, 0 // of grants[:next]
		for _, o := range ops {   // by call
			if !o.granted() || o.tokenless() {
				continue
			}
			for ; next < len(grants) && grants[next].Return < o.Call; next++ {
				if grants[next].Token > greatest.Token {
					greatest = grants[next]
				}
			}
			if greatest.Token >= o.Token {
				found = append(found, Violation{"tokens", name, "a later grant has a smaller token", []Op{greatest, o},
					nil})
			}
		}
	}
	return found
}
