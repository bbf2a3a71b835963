package engine

import (
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/watchdog"
)

// blocked tells of waits for what the client itself has held for as long as they last. Mostly somebody
// locks under a plain context what the caller has, and waits for itself. It may also be that another
// goroutine works for long under the lock, and nobody can tell the two apart where the context does
// not say who is who: so it is told as what it is, once for each holder. The holder itself remembers
// that: who waits may give up and come again, and while nobody waits there is no lookout.
type blocked struct {
	met map[*grant]time.Time // holders that were in somebody's way at the last look: since when they were seen there
}

// look goes through the long waits. The oldest one of each holder is told of.
func (k *blocked) look(l *lookout, long []longWait, now time.Time) {
	met := make(map[*grant]time.Time)
	waits := make(map[*grant][]longWait)
	var order []*grant
	sure := make(map[*grant]bool)
	find := l.finder(long)
	for _, w := range long {
		h, certain := find(w)
		if h == nil {
			continue
		}
		if waits[h] == nil {
			order = append(order, h)
			met[h] = now
			if since, known := k.met[h]; known {
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
	k.met = met
	for _, h := range order {
		if held := h.heldSince(met[h], now); held >= l.long {
			l.tellBlocked(waits[h][0], len(waits[h]), h, held, sure[h])
		}
	}
}

// heldSince is for how long a grant is known to be live. One that was handed on has no time of its own.
func (g *grant) heldSince(seen, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.granted.IsZero() {
		seen = g.granted
	}
	return now.Sub(seen)
}

// finder finds the holder of this client that is in the way of a wait, nil if there is none, and whether
// the caller that waits is that holder.
func (l *lookout) finder(long []longWait) func(longWait) (holder *grant, sure bool) {
	type place struct{ name, owner string }
	var elsewhere map[place]*grant // of those that are not in front of a local queue; made if it is needed
	return func(w longWait) (*grant, bool) {
		for _, u := range w.under {
			if u.excludes(w.g) {
				return u, true
			}
		}
		if w.g.base.traits.NoReentry {
			return nil, false
		}
		owner, here := w.g.inTheWay()
		if here != nil || !strings.HasPrefix(owner, l.client.id+":") {
			return here, false
		}
		if elsewhere == nil {
			elsewhere = make(map[place]*grant)
			for _, t := range l.tenures(long) {
				if g := t.grant(); g != nil {
					elsewhere[place{t.base.Key.Name, t.Entry.Owner()}] = g
				}
			}
		}
		if g := elsewhere[place{w.g.base.Key.Name, owner}]; g != nil && g.excludes(w.g) {
			return g, false
		}
		return nil, false
	}
}

// tenures are those of the names that are waited for. It goes through all that is held, once for a look
// at most.
func (l *lookout) tenures(long []longWait) (list []*Tenure) {
	names := make(map[string]bool)
	for _, w := range long {
		names[w.g.base.Key.Name] = true
	}
	l.client.dogs.each(func(o watchdog.Owner) {
		if t := o.(*Tenure); names[t.base.Key.Name] {
			list = append(list, t)
		}
	})
	return list
}

// grant is who has the lock; nil: it is only kept.
func (t *Tenure) grant() *grant {
	t.mu.Lock()
	defer t.mu.Unlock()
	g, _ := t.holder.(*grant)
	return g
}

// tellBlocked tells of a wait, if it has not ended meanwhile and its holder was not told of. If it has ended, the next
// look tells of another one.
func (l *lookout) tellBlocked(w longWait, waits int, h *grant, held time.Duration, sure bool) {
	if !l.client.waits.stands(w.old) {
		return
	}
	h.mu.Lock()
	if h.told {
		h.mu.Unlock()
		return
	}
	h.told = true
	e := notify.SelfBlockEvent{
		Kind: w.g.base.Key.Kind, Name: w.g.base.Key.Name, Waited: w.waited, Waits: waits, Owner: h.id, Token: h.token,
		Held: held, Sure: sure, Waiting: w.where.String(), Holding: h.asked.stand.where.String(),
	}
	h.mu.Unlock()
	what := "a lock is waited for that this client holds itself"
	if sure {
		what = "somebody waits for a lock that it holds itself"
	}
	const unknown = "not noted"
	l.log().Warn(what, "kind", e.Kind, "name", e.Name, "waited", e.Waited, "waiting at", orElse(e.Waiting, unknown), "waits", waits,
		"held", held, "locked at", orElse(e.Holding, unknown), "owner", e.Owner, "token", e.Token, "hint", w.g.base.ownHint())
	l.client.observer.TellSelfBlocked(e)
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
