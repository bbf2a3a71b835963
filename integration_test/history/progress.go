package history

import (
	"fmt"
	"slices"
	"time"
)

// Progress finds locks that were free for longer than the window, and wanted all the time by callers who waited
// for long enough to be served, none of whom was granted it. It differs from [WakeUps] in what it does not excuse: that
// others left. What they asked for, and what is given back for them, is to cost the others next to nothing.
//
// Nobody need be granted a lock in a fault of anybody, and in the recovery time after it.
func Progress(ops []Op, c Config) (found []Violation) {
	if c.Window == 0 {
		return nil
	}
	for name, ops := range byName(ops) {
		busy := excused(c.Faults, c.Recovery)
		for _, faults := range c.Local {
			busy = append(busy, excused(faults, c.Recovery)...)
		}
		for _, t := range tenures(ops, c.Lease) {
			busy = append(busy, Window{t.op.Return, t.released})
		}
		busy = Union(append(busy, Window{Forever, Forever}))
		for _, wanted := range c.wanted(ops) {
			from := wanted.From
			for _, w := range busy {
				if until := min(w.From, wanted.To); until-from > int64(c.Window) {
					found = append(found, Violation{"progress", name, fmt.Sprintf("free and wanted from %s to %s, and granted to nobody",
						time.Duration(from), time.Duration(until)), within(ops, from, until), nil})
				}
				from = max(from, w.To)
			}
		}
	}
	return found
}

// wanted is when there was somebody all the time who waited for long enough to be served. Those of whom one comes
// soon after the other has left are one time.
func (c *Config) wanted(ops []Op) (list []Window) {
	for i := range ops {
		o := &ops[i]
		if o.Kind == Lock && o.Return != Forever && o.Return-o.Call >= int64(c.Serving) && (o.Total == 0 || o.Total <= c.Permits) {
			list = append(list, Window{o.Call, o.Return + int64(c.Serving)/4})
		}
	}
	return Union(list)
}

// within are the operations of a time.
func within(ops []Op, from, until int64) []Op {
	return slices.DeleteFunc(slices.Clone(ops), func(o Op) bool { return o.Return < from || o.Call > until })
}
