package history

import (
	"regexp"
	"slices"
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

// Outages finds callers who were told that servers do not answer, although they did: there was no fault, of all or
// of its client, since the call or for the recovery time before it. Nor has a client stood still, as far as that was
// noticed: on a machine that busy servers stand still, too. It is not checked without [Config.Outages].
func Outages(ops []Op, c Config) (found []Violation) {
	if !c.Outages {
		return nil
	}
	all := slices.Clone(c.Faults)
	for _, own := range c.Pauses {
		all = append(all, own...)
	}
	for _, o := range ops {
		asks := o.Kind == Lock || o.Kind == Try || o.Kind == Reenter || o.Kind == Upgrade
		if asks && o.Silent && !o.Panic && !closedUnder(o.Error) && !disturbed(o, excused(all, c.Recovery)) &&
			!disturbed(o, excused(c.Local[o.Client], c.Recovery)) {
			found = append(found, Violation{"outage", o.Name, "told of an outage while servers answer", []Op{o}, nil})
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
