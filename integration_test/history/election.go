package history

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Unnamed begins the owner of a leadership that did not say who it is.
const Unnamed = "unnamed:"

// Observers finds what observers of elections were told wrongly: a leader or an order; and lasting leaders that they missed.
func Observers(ops []Op, c Config) (found []Violation) {
	for name, ops := range byName(ops) {
		terms := tenures(ops, 0)
		for _, seen := range told(ops) {
			wrong := func(text string, some ...Op) {
				found = append(found, Violation{"observed", name, text, append(some, seen.op), nil})
			}
			var last Op
			for _, o := range seen.told {
				if o.Seen == "" {
					continue
				}
				if !c.led(terms, ops, o) {
					wrong("an observer was told of one that never led", o)
				}
				if o.Token <= last.Token {
					wrong("an observer was told of leaders in another order", last, o)
				}
				last = o
			}
			for _, t := range terms {
				if c.missed(t, seen) {
					wrong("an observer was not told of one that led for "+span(t.op.Return, t.until), t.op)
				}
			}
		}
	}
	return found
}

// observer is one loop over what happens, and all that it was told.
type observer struct {
	op   Op
	told []Op
}

func told(ops []Op) (list []observer) {
	for _, o := range ops {
		if o.Kind != Observe {
			continue
		}
		if o.Return == Forever {
			o.Return = max(o.Call, died(o, ops).From) // from when on perhaps nothing was recorded
		}
		seen := observer{op: o}
		for _, t := range ops {
			if t.Kind == Told && t.Result == OK && t.Client == o.Client && t.Actor == o.Actor && o.Call <= t.Call && t.Return <= o.Return {
				seen.told = append(seen.told, t)
			}
		}
		list = append(list, seen)
	}
	return list
}

// led reports whether one of whom somebody was told may have led by then. Who campaigned and was not told how it ended may have
// announced itself; so may have one whose Run campaigned again when it got no answer.
func (c *Config) led(terms []tenure, ops []Op, o Op) bool {
	return slices.ContainsFunc(terms, func(t tenure) bool {
		if t.op.Value != o.Value || t.op.Call > o.Return {
			return false
		}
		if strings.HasPrefix(t.op.Owner, Unnamed) {
			return t.op.Token == o.Token || t.op.Token > o.Token && c.felt(t.op.Client, t.op.Call, t.op.Return)
		}
		return t.op.Token == o.Token && t.op.Owner == o.Seen
	}) || slices.ContainsFunc(ops, func(l Op) bool {
		return l.Kind == Lock && l.Result != OK && l.Value == o.Value && l.Call <= o.Return
	})
}

// missed reports whether an undisturbed observer was not told of a leader that led for longer than the bound meanwhile.
func (c *Config) missed(t tenure, seen observer) bool {
	if c.Bound == 0 {
		return false
	}
	from, to := max(t.op.Return, seen.op.Call), min(t.until, seen.op.Return)
	for _, o := range seen.told {
		if o.Token == t.op.Token {
			to = min(to, o.Call)
		}
	}
	return from < to && c.rests(seen.op.Client, from, to) > int64(c.Bound)
}

// lateNews are the operations, a term that a pause outlasted ending where that begins: its end is noted only after the pause.
func lateNews(ops []Op, pauses map[int][]Window) []Op {
	ops = slices.Clone(ops)
	for i, o := range ops {
		if o.Kind != End && o.Kind != Unlock || o.Result != Lost || o.Deadline != 0 {
			continue
		}
		for _, p := range pauses[o.Client] {
			if p.From <= o.Call && o.Call <= after(p.To, late) {
				ops[i].Deadline = max(p.From, 1)
			}
		}
	}
	return ops
}

// late is how long a process may take to note what happened in a pause, on a busy machine.
const late = time.Second

// Leaders finds processes that wrongly took themselves for the leader, and answers to who leads that were never so meanwhile.
// Words just before a pause do not count: the end of trust, noted later, was moved back by it.
func Leaders(ops []Op, c Config) (found []Violation) {
	for name, ops := range byName(ops) {
		terms := tenures(ops, 0)
		alive := tenures(longest(ops), 0)
		for _, o := range ops {
			text := ""
			switch {
			case o.Kind == Leads && o.Result == OK && !Overlap(c.Pauses[o.Client], o.Call, o.Call) && !slices.ContainsFunc(alive, func(t tenure) bool {
				return t.op.Client == o.Client && t.op.Actor == o.Actor && t.op.Return <= o.Return && (t.until >= o.Call || closedAfter(ops, t, o.Call))
			}):
				text = "one took itself for the leader"
			case o.Kind == Look && o.Result == OK && (!c.led(terms, ops, o) || slices.ContainsFunc(terms, func(t tenure) bool {
				return t.op.Token == o.Token && t.unlocked && t.left < o.Call || t.op.Token > o.Token && t.op.Return < o.Call
			})):
				text = "one was named that did not lead any more, or never had"
			case o.Kind == Look && o.Result == Denied && slices.ContainsFunc(terms, func(t tenure) bool {
				return t.op.Return < o.Call && t.until > o.Return
			}):
				text = "nobody was said to lead while one did"
			default:
				continue
			}
			found = append(found, Violation{"leader", name, fmt.Sprintf("%s at %s", text, time.Duration(o.Call)),
				append([]Op{o}, ofTerms(terms)...), nil})
		}
	}
	return found
}

// longest are the operations, where terms last for as long as they may have. A crash begins earlier than what
// is recorded ends: what was said by then was said. And a term of which nobody knows how long it was trusted
// may have outlived a pause, though lateNews ends it with the beginning of that.
func longest(ops []Op) (list []Op) {
	for _, o := range ops {
		if strings.HasPrefix(o.Owner, Unnamed) {
			o.Deadline = 0
		}
		if o.Kind != Crash {
			list = append(list, o)
		}
	}
	return list
}

// closedAfter reports whether a leader went on until its client was closed, which was told after a moment.
func closedAfter(ops []Op, t tenure, at int64) bool {
	return slices.ContainsFunc(ops, func(o Op) bool {
		return o.Kind == End && o.Result == Closed && o.grant() == t.op.grant() && o.Call >= at
	})
}

func ofTerms(terms []tenure) (ops []Op) {
	for _, t := range terms {
		ops = append(ops, t.op)
	}
	return ops
}
