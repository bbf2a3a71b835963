package history

import (
	"regexp"
	"strings"
)

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
