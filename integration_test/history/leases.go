package history

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Leases finds locks that the server keeps for longer than their holders asked for, and holds that
// go on although nobody renews them: those of which all that last are plain leases. A hold that is
// asked for anew, or lengthened, goes on from then. No lease is shorter than a claim.
func Leases(ops []Op, c Config) (found []Violation) {
	for name, ops := range byName(ops) {
		grants := make(map[grantID]*leased)
		for i, o := range ops { // by call
			if o.granted() && o.Lease > 0 {
				grants[o.grant()] = &leased{asked: int64(c.Claim), least: o.Least}
			}
			l := grants[o.grant()]
			if l == nil {
				continue
			}
			if text := l.contradiction(&ops[i]); text != "" {
				found = append(found, Violation{"lease", name, text, of(ops, o.grant()), nil})
				delete(grants, o.grant())
				continue
			}
			l.note(&ops[i])
		}
	}
	return found
}

// of are the operations of one grant.
func of(ops []Op, g grantID) (list []Op) {
	for _, o := range ops {
		if o.grant() == g {
			list = append(list, o)
		}
	}
	return list
}

// leased is what is known of a grant's lease.
type leased struct {
	asked   int64 // the longest
	least   int64 // for which the lock stays taken in any case
	renewed int   // holds in it that are to be renewed; or may be, after an unlock of unknown outcome
	last    int64 // when something was done last that may have lengthened it
}

func (l *leased) note(o *Op) {
	switch o.Kind {
	case Lock, Try, Reenter:
		l.asked = max(l.asked, o.Lease)
		if o.Result == OK && !o.Plain {
			l.renewed++
		}
	case Extend:
		l.asked = max(l.asked, o.Lease)
	case Unlock:
		if o.Result == OK && !o.Plain {
			l.renewed--
		}
	default:
		return
	}
	l.last = max(l.last, o.Return)
}

// contradiction is what is wrong with a lease by what was seen of it; empty: nothing.
func (l *leased) contradiction(o *Op) string {
	most := max(l.asked, l.least)
	if part := most % int64(time.Millisecond); part > 0 { // servers count whole ones, and the last one counts
		most += int64(time.Millisecond) - part
	}
	switch {
	case o.Kind == State && o.Result == OK && o.Seen == o.Owner && o.Left > most:
		return fmt.Sprintf("%s are left of a lease of %s", time.Duration(o.Left), time.Duration(most))
	// of a hold that was lost its deadline may not be told
	case o.Kind != Unlock && o.Kind != End, o.Deadline == Forever:
	case l.renewed == 0 && l.last != Forever && o.Deadline > after(l.last, time.Duration(l.asked)):
		return fmt.Sprintf("nobody renews it, and it went on for %s", time.Duration(o.Deadline-l.last))
	}
	return ""
}

// Forbidden finds what an owner was not refused while it held the name: another kind of lock of it, or to write while it
// reads.
func Forbidden(ops []Op, _ Config) (found []Violation) {
	for name, ops := range byName(ops) {
		until := make(map[grantID]int64) // until when each grant was trusted
		for _, t := range tenures(ops, 0) {
			until[t.op.grant()] = t.until
		}
		for _, o := range ops {
			if o.Return >= until[o.grant()] {
				continue
			}
			switch {
			case o.Kind == Mixed && o.Result != Refused:
				found = append(found, Violation{"kinds", name, "another kind of lock of the name was not refused", of(ops, o.grant()), nil})
			case o.Kind == Upgrade && o.Result != Closed && !(o.Result == Refused && strings.Contains(o.Error, "wait for itself")):
				found = append(found, Violation{"upgrade", name, "one that reads was not refused to write", of(ops, o.grant()), nil})
			}
		}
	}
	return found
}

// between are the operations of a client from shortly before the call of one of them to the return
// of another.
func between(ops []Op, first, last Op) []Op {
	return slices.DeleteFunc(slices.Clone(ops), func(o Op) bool {
		return o.Client != first.Client || o.Return < first.Call-int64(time.Minute) || o.Call > last.Return
	})
}

// Overtaken finds waiters past whom the lock was handed to one of the same client that came later.
// Not where a fault met the client meanwhile: who was handed a lock that is lost in that moment
// queues anew, and so does who waits for its own owner's unlock.
func Overtaken(ops []Op, c Config) (found []Violation) {
	for name, ops := range byName(ops) {
		for _, late := range ops {
			if !late.Handed || late.Result != OK || c.Slack == 0 {
				continue
			}
			for _, o := range ops {
				if o.Kind == Lock && o.Client == late.Client && after(o.Call, c.Slack) < late.Call &&
					o.Return > after(late.Return, c.Slack) &&
					!c.felt(o.Client, o.Call, late.Return) {
					found = append(found, Violation{"overtaken", name, "the lock was handed on past one that waited",
						between(ops, o, late), nil})
					break
				}
			}
		}
	}
	return found
}

// felt reports whether a client may have felt a fault in a time.
func (c *Config) felt(client int, from, to int64) bool {
	return c.troubled(Op{Client: client, Call: from - int64(c.Recovery), Return: to})
}

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
