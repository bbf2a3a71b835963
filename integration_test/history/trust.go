package history

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Trust finds holds that went on after their deadline, and holds that were called lost before it
// although no data was. c.Slack is how late a process may be scheduled on a busy machine; the time
// that a client spent in a pause is added.
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

// GivenUp finds operations that were given up, their outcome unknown, sooner than the time for
// which the library promises to repeat them. An operation that a server refused with an error, in a
// window or because something else than a lock is there, has its reason, and so has one in which a
// hook panicked, or under which the client was closed; and one whose repeat was answered, which tells that
// nobody can know. A subscription that was refused may have been sent for somebody before it.
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
func refusedFor(text string) bool {
	return strings.Contains(text, "WRONGTYPE") || strings.Contains(text, "HOLDFAST_PERMITS")
}

// closedUnder reports whether the client was closed before an operation had its answer. What had failed before that
// may follow.
func closedUnder(text string) bool { return strings.Contains(text, "outcome unknown: client closed") }

// Violation is a promise that a history shows broken.
type Violation struct {
	Check   string // "exclusion", "linearizability", "wake-up", "fifo", ...
	Name    string // of the lock
	Text    string
	Ops     []Op   // those that contradict each other, or all of the name
	Picture []byte // of linearizability: an HTML page
}

// Exclusion finds owners that trusted their holds of one name at the same moment, but for readers, and an owner that
// reads and writes itself.
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

// Refusals finds attempts that were refused without a word of what is in the way: of who holds the
// lock, or of what stands there in its place. And attempts that got a lock although something else
// stood there all the time.
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
			case !inside && o.Result == Denied && !holder.MatchString(o.Error) && !near(ops, o):
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

// during is what stood under the name from the call to the return of an operation, if there was
// something.
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
	for _, f := range ops {
		if f.Kind == Foreign && f.Call-way <= o.Return && o.Call <= max(f.Return, f.Deadline)+way {
			return true
		}
	}
	return false
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
