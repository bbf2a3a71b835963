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
