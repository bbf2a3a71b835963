package history

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Trust finds holds that went on after their deadline, and holds that were called lost before it although no data was. c.Slack
// is how late a process may be scheduled on a busy machine; the time that a client spent in a pause is added.
func Trust(ops []Op, c Config) (found []Violation) {
	for name, ops := range byName(ops) {
		excuse := forced(ops) // so a loss has its reason
		for _, o := range ops {
			if c.Slack == 0 || o.Deadline == 0 || o.Kind != End && o.Kind != Unlock {
				continue
			}
			late := o.Call - o.Deadline - paused(c.Pauses[o.Client], o.Deadline, o.Call)
			said := o.Return
			if o.Kind == End {
				said = o.Call
			}
			switch {
			// an unlock may come when it likes, if the hold has ended by then
			case o.Kind == End && late > int64(c.Slack):
				found = append(found, Violation{"trust", name, fmt.Sprintf("a hold went on for %s after its deadline",
					time.Duration(late)), []Op{o}, nil})
			case o.Result == Lost && said < o.Deadline && !excuse && !Overlap(c.Lapses, said, said):
				before := ""
				if o.Deadline != Forever {
					before = time.Duration(o.Deadline-said).String() + " "
				}
				found = append(found, Violation{"trust", name, "lost " + before + "before its deadline, for no reason",
					append([]Op{o}, ops...), nil})
			}
		}
	}
	return found
}

// paused is how much of a time lies in windows that do not overlap.
func paused(windows []Window, from, to int64) (sum int64) {
	for _, w := range windows {
		sum += max(0, min(to, w.To)-max(from, w.From))
	}
	return sum
}

// GivenUp finds operations that were given up, their outcome unknown, sooner than the time for which the library promises to
// repeat them. An operation that a server refused with an error, in a window or because something else than a lock is there,
// has its reason, and so has one in which a hook panicked, or under which the client was closed; and one whose repeat was
// answered, which tells that nobody can know. A subscription that was refused may have been sent for somebody before it.
func GivenUp(ops []Op, least time.Duration, refusals []Window) (found []Violation) {
	for _, o := range ops {
		asked := o
		if strings.Contains(o.Error, "cannot listen") {
			asked.Call -= int64(least)
		}
		switch o.Kind {
		case Lock, Reenter, Unlock: // TryLock does not repeat itself
			if o.Result == Unknown && !o.Panic && !refusedFor(o.Error) && !closedUnder(o.Error) && !unknowable(o.Error) && o.Return != Forever &&
				o.Return-o.Call < int64(least) && !disturbed(asked, refusals) {
				found = append(found, Violation{"given up", o.Name,
					fmt.Sprintf("after %s", time.Duration(o.Return-o.Call)),
					[]Op{o}, nil})
			}
		}
	}
	return found
}

// unknowable reports whether a release was repeated, and answered when others had had the lock.
func unknowable(text string) bool {
	return strings.Contains(text, "may have been lost before it was released")
}

// refusedFor reports whether a server refused an operation for a reason that does not pass.
func refusedFor(text string) bool { return strings.Contains(text, "WRONGTYPE") || IsTooMany(text) }

// IsTooMany reports whether an error, ours or (in hooks) the server's, says that a semaphore has fewer permits than asked for.
func IsTooMany(text string) bool {
	return strings.Contains(text, "raise their number with SetPermits") || strings.Contains(text, "permits were asked for")
}

// closedUnder reports whether the client was closed before an operation had its answer. What had failed before that may follow.
func closedUnder(text string) bool { return strings.Contains(text, "outcome unknown: client closed") }

// Violation is a promise that a history shows broken.
type Violation struct {
	Check   string // "exclusion", "linearizability", "wake-up", "fifo", ...
	Name    string // of the lock
	Text    string
	Ops     []Op   // those that contradict each other, or all of the name
	Picture []byte // of linearizability: an HTML page
}

// Exclusion finds owners that trusted holds of one name at the same moment, unless both read, or one owner reads and writes.
func Exclusion(ops []Op, _ Config) (found []Violation) {
	for name, ops := range byName(ops) {
		all := tenures(ops, 0) // by return
		for i := range all {
			t := &all[i]
			for j := range all[:i] {
				other := &all[j]
				together := t.op.Shared && other.op.Shared || t.op.Of == ReadWrite && t.op.Owner == other.op.Owner
				if to := min(t.until, other.until); to > t.op.Return && !together {
					found = append(found, Violation{"exclusion", name, "two holders for " + span(t.op.Return, to),
						[]Op{other.op, t.op}, nil})
				}
			}
		}
	}
	return found
}

// holder is how a refusal names who has the lock.
var holder = regexp.MustCompile(`held by ([0-9a-f-]{36}:[hks]?[0-9]+)`)

// asking is how a refusal says that nobody knows yet who has the lock.
const asking = "another call of this client asks for it"

// Refusals finds attempts that were refused without a word of what is in the way: of who holds the lock, or of what stands
// there in its place. And attempts that got a lock although something else stood there all the time.
func Refusals(ops []Op) (found []Violation) {
	for name, ops := range byName(ops) {
		for _, o := range ops {
			if o.Kind != Try {
				continue
			}
			thing, inside := during(ops, o)
			text := ""
			switch {
			case inside && o.Result == OK:
				text = "granted where something else stood"
			case inside && (o.Result == Denied || o.Result == Refused) && !strings.Contains(o.Error, thing.Seen):
				text = "refused without a word of what is there: " + thing.Seen
			case !inside && o.Result == Denied && !holder.MatchString(o.Error) && !strings.Contains(o.Error, asking) && !near(ops, o):
				text = "refused without a word of who has the lock"
			default:
				continue
			}
			found = append(found, Violation{"refusal", name, text, []Op{o, thing}, nil})
		}
	}
	return found
}

// Outages finds callers who stayed for a moment only and were told that no server answers, although their own
// client had an answer about the same lock in the second before: one that was asked for and there in that time.
// Excused are those whom a fault met, or who came so soon after it that another server may have to answer.
func Outages(ops []Op, c Config) (found []Violation) {
	const moment, second = int64(100e6), int64(1e9) // of the table at holdfast.ErrNotAcquired
	for name, ops := range byName(ops) {
		for _, o := range ops {
			if !o.Outage || o.Return-o.Call >= moment || !strings.Contains(o.Error, "no answer") ||
				disturbed(o, excused(c.Faults, c.Recovery)) || disturbed(o, excused(c.Local[o.Client], c.Recovery)) {
				continue
			}
			for _, e := range ops {
				answered := e.Kind == State && e.Result == OK || e.Kind == Try && e.Result == Denied
				if answered && e.Client == o.Client && e.Call > o.Return-second && e.Return <= o.Call {
					found = append(found, Violation{"outage", name, "told that no server answers, after an answer", []Op{e, o}, nil})
					break
				}
			}
		}
	}
	return found
}

// during is what stood under the name from the call to the return of an operation, if there was something.
func during(ops []Op, o Op) (thing Op, inside bool) {
	for _, f := range ops {
		if f.Kind == Foreign && f.Call <= o.Call && o.Return <= f.Return {
			return f, true
		}
	}
	return thing, false
}

// near reports whether something may have stood there for a part of the time.
func near(ops []Op, o Op) bool {
	const way = int64(60e9) // that it may have taken to put it there, and to take it away
	return slices.ContainsFunc(ops, func(f Op) bool {
		return f.Kind == Foreign && f.Call-way <= o.Return && o.Call <= max(f.Return, f.Deadline)+way
	})
}

// Named are the owners that refusals named, each when it was said.
func Named(ops []Op) (list []Sample) {
	for _, o := range ops {
		if o.Kind != Try || o.Result != Denied {
			continue
		}
		if m := holder.FindStringSubmatch(o.Error); m != nil {
			list = append(list, Sample{At: o.Return, Name: o.Name, Owner: m[1]})
		}
	}
	return list
}

// Leases finds locks that the server keeps for longer than asked for, and holds that go on unrenewed: those with plain leases
// only. A hold goes on from a new request or extension. No lease is shorter than a claim.
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

// Forbidden finds what an owner was not refused while it held the name: another kind of lock of it, or to write while it reads.
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

// between are the operations of a client from shortly before the call of one of them to the return of another.
func between(ops []Op, first, last Op) []Op {
	return slices.DeleteFunc(slices.Clone(ops), func(o Op) bool {
		return o.Client != first.Client || o.Return < first.Call-int64(time.Minute) || o.Call > last.Return
	})
}

// Overtaken finds waiters past whom the lock was handed to a later one of their client; not where a fault met it meanwhile: who
// loses a handed lock queues anew, as does who waits for its own owner's unlock.
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

// Periods finds locks granted anew before the end of the time for which they were to stay taken, by a server's clock 1 % fast
// that may jump by c.Jumps ahead. Servers that lose their data in a lapse may grant it anew.
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

// stays is until when the server keeps a given up lock at most, by a clock 1 % slow: for its time or, if untold, its lease.
func (t *tenure) stays(at int64) int64 {
	if t.op.Least == 0 {
		return at
	}
	if t.unlocked {
		return t.op.Return + t.op.Least*102/100
	}
	return at + max(t.op.Least, t.longest)*102/100
}
