package history

import (
	"fmt"
	"slices"
	"time"
)

// Periods finds locks that were granted anew before the time was over for which their holder had
// asked them to stay taken, by a server's clock that is a per cent fast and may jump by c.Jumps ahead.
// Servers that lose their data in one of the lapses may grant it anew.
func Periods(ops []Op, c Config) (found []Violation) {
	for name, ops := range byName(ops) {
		all := tenures(ops, 0)
		for _, t := range all {
			if t.op.Least == 0 || forced(ops) {
				continue
			}
			free := t.free() - int64(c.Jumps)
			if Overlap(c.Lapses, t.op.Call, free) {
				continue
			}
			for _, next := range all {
				if next.op.Token > t.op.Token && next.op.Return < free {
					found = append(found, Violation{"period", name,
						fmt.Sprintf("granted %s before the lock was to be free",
							time.Duration(free-next.op.Return)), []Op{t.op, next.op}, nil})
				}
			}
		}
	}
	return found
}

// forced reports whether somebody else than the holders ended a lock.
func forced(ops []Op) bool {
	return slices.ContainsFunc(ops, func(o Op) bool { return o.Kind == Wipe || o.Kind == Force })
}

// free is before when the server may not grant a lock anew that is to stay taken. The server, which
// was asked no later than the lease before the deadline, keeps it for that time or for the lease,
// if that is longer. Who unlocks it counts from the answer, and so may end it earlier.
func (t *tenure) free() int64 {
	asked := t.op.Call
	if t.op.Deadline != 0 {
		asked = max(asked, t.op.Deadline-t.op.Lease)
	}
	if !t.unlocked {
		return asked + t.op.Least*100/101
	}
	return min(asked+max(t.op.Least, t.op.Lease)*100/101, t.op.Return+t.op.Least*100/101)
}

// stays is until when the server keeps a lock that its holder gave up then, at the latest, by a
// clock that is a per cent slow: until its time is over, or, where nobody could say so, until its
// lease is.
func (t *tenure) stays(at int64) int64 {
	if t.op.Least == 0 {
		return at
	}
	if t.unlocked {
		return t.op.Return + t.op.Least*102/100
	}
	return at + max(t.op.Least, t.longest)*102/100
}
