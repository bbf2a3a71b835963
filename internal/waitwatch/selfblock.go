package waitwatch

import (
	"cmp"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/event"
)

// selfBlocks reports waits for locks that the client itself has held for as long as they last. Mostly a caller locks
// again, under a plain context, what it holds already, and waits for itself. It may also be that another goroutine works
// for long under the lock. If the context does not show the owner, the two cannot be told apart, so the report says
// only what is known, once for each holder. The holder's entry remembers the report: a caller that waits may give up and
// come again, and without waits there is no waitChecker.
type selfBlocks struct {
	holders map[Grant]time.Time // that blocked waits at the last check: when they were first seen to
}

// check goes through the long waits. It reports the oldest one of each holder.
func (b *selfBlocks) check(l *waitChecker, long []longWait, now time.Time) {
	holders := make(map[Grant]time.Time)
	waits := make(map[Grant][]longWait)
	var order []Grant
	sure := make(map[Grant]bool)
	find := l.finder(long)
	for _, w := range long {
		h, certain := find(w)
		if h == nil {
			continue
		}
		if waits[h] == nil {
			order = append(order, h)
			holders[h] = now
			if since, known := b.holders[h]; known {
				holders[h] = since
			}
		}
		if certain && !sure[h] { // it is reported first
			sure[h] = true
			waits[h] = append([]longWait{w}, waits[h]...)
			continue
		}
		waits[h] = append(waits[h], w)
	}
	b.holders = holders
	for _, h := range order {
		if held := now.Sub(h.HeldFrom(holders[h])); held >= l.long {
			l.reportSelfBlock(waits[h][0], len(waits[h]), h, held, sure[h])
		}
	}
}

// finder returns a function that finds the holder of this client that blocks a wait, nil if there is none. sure says
// that the waiting caller is that holder.
func (l *waitChecker) finder(long []longWait) func(longWait) (holder Grant, sure bool) {
	var elsewhere map[heldBy]Grant // grants that are not in front of a local queue; made if needed
	return func(w longWait) (Grant, bool) {
		for _, u := range w.under {
			if u.Lock().excludes(w.lock) {
				return u, true
			}
		}
		if w.lock.NoReentry {
			return nil, false
		}
		owner, here := w.of.InTheWay()
		if here != nil || !strings.HasPrefix(owner, l.watch.cfg.Client+":") {
			return here, false
		}
		if elsewhere == nil {
			elsewhere = l.heldOf(long)
		}
		if g := elsewhere[heldBy{w.lock.Name, owner}]; g != nil && g.Lock().excludes(w.lock) {
			return g, false
		}
		return nil, false
	}
}

type heldBy struct{ name, owner string }

// heldOf returns the grants of the names that the client waits for. It goes through all holds, at most once in a check.
func (l *waitChecker) heldOf(long []longWait) map[heldBy]Grant {
	names := make(map[string]bool)
	for _, w := range long {
		names[w.lock.Name] = true
	}
	held := make(map[heldBy]Grant)
	l.watch.cfg.Held(names, func(name, owner string, g Grant) { held[heldBy{name, owner}] = g })
	return held
}

// reportSelfBlock reports a wait, if it has not ended and its holder was not reported before. If it has ended, the next
// check reports another one.
func (l *waitChecker) reportSelfBlock(w longWait, waits int, h Grant, held time.Duration, sure bool) {
	if !l.watch.entries.lasts(w.seen) || h.Entry().reported.Swap(true) {
		return
	}
	owner, token := h.Identity()
	e := event.SelfBlock{
		Kind: w.lock.Kind, Name: w.lock.Name, Waited: w.waited, Waits: waits, Owner: owner, Token: token,
		Held: held, Sure: sure, Waiting: w.Site(), Holding: h.Entry().Site(),
	}
	what := "a caller waits for a lock that its own client holds"
	if sure {
		what = "a caller waits for a lock that it holds itself"
	}
	l.log().Warn(what, "kind", e.Kind, "name", e.Name, "waited", e.Waited, "waiting at", cmp.Or(e.Waiting, siteUnknown), "waits", waits,
		"held", held, "locked at", cmp.Or(e.Holding, siteUnknown), "owner", e.Owner, "token", e.Token, "hint", w.lock.HintFor(h.Lock().Key))
	l.watch.cfg.Observer.TellSelfBlocked(e)
}

const siteUnknown = "not noted"
