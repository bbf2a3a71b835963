package engine

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/waitwatch"
)

// What package waitwatch sees of a grant and of a client. It changes neither.

var _ waitwatch.Grant = (*grant)(nil)

// Lock is [waitwatch.Grant.Lock].
func (g *grant) Lock() waitwatch.Lock {
	b := g.base
	l := waitwatch.Lock{Key: b.Key, Client: b.Client, NoReentry: b.traits.NoReentry, NoUpgrade: b.upgradeError() != nil}
	if b.traits.Several {
		l.Masters = len(b.beside) + 1
	}
	return l
}

// Entry is [waitwatch.Grant.Entry].
func (g *grant) Entry() *waitwatch.Entry { return &g.asked.waited }

// Identity is [waitwatch.Grant.Identity].
func (g *grant) Identity() (owner string, token uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.id, g.token
}

// HeldFrom is [waitwatch.Grant.HeldFrom]. A grant that was handed off has no time of its own.
func (g *grant) HeldFrom(seen time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.granted == 0 {
		return seen
	}
	return start.Add(g.granted)
}

// Under is [waitwatch.Grant.Under]: the holds of the same client under whose contexts the caller was called, whoever
// their owners are, and all else that its owner has.
func (g *grant) Under(most int) (list []waitwatch.Grant) {
	add := func(u *grant) {
		if u != g && u.base.Client == g.base.Client && len(list) < most && !slices.Contains(list, waitwatch.Grant(u)) && u.isLive() {
			list = append(list, u)
		}
	}
	for h := holdOf(g.asked.ctx); h != nil; h = holdOf(h.parent) {
		for _, u := range h.grants() {
			add(u)
		}
	}
	for _, u := range g.owner.all() {
		add(u)
	}
	return list
}

// grants are those that a hold is part of: several if it is a joined one.
func (h *Hold) grants() (list []*grant) {
	switch on := h.on.(type) {
	case *grant:
		list = append(list, on)
	case *joined:
		for _, one := range on.holds {
			list = append(list, one.grants()...)
		}
	}
	return list
}

// InTheWay is [waitwatch.Grant.InTheWay].
func (g *grant) InTheWay() (owner string, here waitwatch.Grant) {
	if front, id := g.inFront(); front != nil {
		return id, front
	}
	note, _ := g.noted()
	return note.Said().Owner, nil
}
