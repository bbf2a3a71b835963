package history

import (
	"cmp"
	"slices"
	"time"
)

// Kept counts the grants of locks that the client had kept without a holder: those that the server
// did not make, and that were asked for when the holder before had unlocked the lock already.
func Kept(ops []Op) (n int) {
	for _, ops := range byName(ops) {
		all := tenures(ops, 0)
		slices.SortFunc(all, func(a, b tenure) int { return cmp.Compare(a.op.Token, b.op.Token) })
		for i, t := range all {
			if t.op.Handed && i > 0 && all[i-1].op.Owner == t.op.Owner && all[i-1].unlocked && all[i-1].left < t.op.Call {
				n++
			}
		}
	}
	return n
}

// keptUntil is until when the lock may stand, where nothing disturbs its client.
func (t *tenure) keptUntil() int64 {
	if t.op.Keep == 0 || !t.unlocked {
		return t.released
	}
	return max(t.released, after(t.left, time.Duration(t.op.Keep)))
}

// idle is the time for which a lock may have been kept after its holder had unlocked it. Where a
// fault met the client meanwhile, it may have given the lock back late, or only its lease did.
func (c *Config) idle(t tenure) (w Window, felt bool) {
	w = Window{t.released, t.released}
	if t.op.Keep == 0 || !t.unlocked {
		return w, false
	}
	w.From = min(t.left, t.released) // a later crash of the client puts off when all that it had is free
	w.To = after(t.keptUntil(), c.Recovery)
	for _, f := range sorted(c.Faults, c.Local[t.op.Client]) {
		if over := after(f.To, c.Recovery); f.From <= w.To && over >= w.From {
			w.To, felt = max(w.To, after(over, c.Lease)), true
		}
	}
	return w, felt
}
