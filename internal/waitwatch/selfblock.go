package waitwatch

import (
	"cmp"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/notify"
)

// selfBlocks reports waits for what the client itself has held for as long as they last. Mostly somebody
// locks under a plain context what the caller has, and waits for itself. It may also be that another
// goroutine works for long under the lock, and nothing can tell the two apart where the context does
// not say who is who: so it is reported as what it is, once for each holder. The holder's entry remembers
// that: a caller that waits may give up and come again, and while nobody waits there is no looker.
type selfBlocks struct {
	met map[Grant]time.Time // holders that were in somebody's way at the last look: since when they were seen there
}

// look goes through the long waits. The oldest one of each holder is reported.
func (b *selfBlocks) look(l *looker, long []longWait, now time.Time) {
	met := make(map[Grant]time.Time)
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
			met[h] = now
			if since, known := b.met[h]; known {
				met[h] = since
			}
		}
		if certain && !sure[h] { // it is shown first
			sure[h] = true
			waits[h] = append([]longWait{w}, waits[h]...)
			continue
		}
		waits[h] = append(waits[h], w)
	}
	b.met = met
	for _, h := range order {
		if held := now.Sub(h.HeldFrom(met[h])); held >= l.long {
			l.reportSelfBlock(waits[h][0], len(waits[h]), h, held, sure[h])
		}
	}
}

// finder finds the holder of this client that is in the way of a wait, nil if there is none, and whether
// the caller that waits is that holder.
func (l *looker) finder(long []longWait) func(longWait) (holder Grant, sure bool) {
	var elsewhere map[heldBy]Grant // of those that are not in front of a local queue; made if it is needed
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

// heldOf are the grants of the names that are waited for. It goes through all that is held, once for a look
// at most.
func (l *looker) heldOf(long []longWait) map[heldBy]Grant {
	names := make(map[string]bool)
	for _, w := range long {
		names[w.lock.Name] = true
	}
	held := make(map[heldBy]Grant)
	l.watch.cfg.Held(names, func(name, owner string, g Grant) { held[heldBy{name, owner}] = g })
	return held
}

// reportSelfBlock reports a wait, if it has not ended meanwhile and its holder was not reported. If it has ended, the
// next look reports another one.
func (l *looker) reportSelfBlock(w longWait, waits int, h Grant, held time.Duration, sure bool) {
	if !l.watch.entries.lasts(w.seen) || h.Entry().told.Swap(true) {
		return
	}
	owner, token := h.Identity()
	e := notify.SelfBlockEvent{
		Kind: w.lock.Kind, Name: w.lock.Name, Waited: w.waited, Waits: waits, Owner: owner, Token: token,
		Held: held, Sure: sure, Waiting: w.Site(), Holding: h.Entry().Site(),
	}
	what := "a lock is waited for that this client holds itself"
	if sure {
		what = "somebody waits for a lock that it holds itself"
	}
	l.log().Warn(what, "kind", e.Kind, "name", e.Name, "waited", e.Waited, "waiting at", cmp.Or(e.Waiting, siteUnknown), "waits", waits,
		"held", held, "locked at", cmp.Or(e.Holding, siteUnknown), "owner", e.Owner, "token", e.Token, "hint", w.lock.Hint)
	l.watch.cfg.Observer.TellSelfBlocked(e)
}

const siteUnknown = "not noted"
