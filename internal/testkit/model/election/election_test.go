package election

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// electing is the model. Time goes in ticks; a leadership is trusted for a tick less than its lease.
type electing struct {
	lease, claim, keep uint8 // ticks; keep is for how long an announcement lasts
	wishes             [maxCandidates]uint8
	watched            bool  // there is an observer
	slow               bool  // which may know later, when time has passed
	faults             uint8 // answers that do not come in time
	crashes            uint8
	leaves             uint8 // callers who give up while they wait
	ends               uint8 // contexts of Run that end
	breaks             uint8 // of the observer's connection
	lapses             uint8 // claims that end unheard
	forces             uint8 // deletions of the lock
	losses             uint8 // of all keys
	off                model.Defence
	only               error // look for this violation alone
	cut                int   // requests for which the bounds had no room
}

func (m *electing) start() state {
	s := state{faults: m.faults, crashes: m.crashes, leaves: m.leaves, ends: m.ends, breaks: m.breaks, lapses: m.lapses,
		forces: m.forces, losses: m.losses}
	for c := range s.c {
		s.c[c].wishes = m.wishes[c]
	}
	if m.watched {
		s.o.at = looking
	}
	return s
}

// explore also looks whether a goal can be reached from everywhere. With an observer that is that it
// knows who leads, by its own steps and those of its connection alone. Else that all who campaign
// lead or leave, without a fault, a renewal or a new wish.
func (m electing) explore(off model.Defence, only error) (model.Report, error) {
	m.off, m.only = off, only
	explored := model.Model[state]{
		Start: m.start(), Next: m.next, Settle: m.settle, Check: m.check, Goal: calm, Only: only, Cut: &m.cut,
	}
	if m.watched {
		explored.Goal = observed
	}
	return model.Explore(explored)
}

// counts reports whether the goal may count upon what happens by itself at candidates and with time.
func (m *electing) counts() bool { return !m.watched || m.slow }

// one leaves a scenario one candidate, for controls that have to see all states.
func one(m electing) electing {
	m.wishes = each{1, 0}
	return m
}

type each = [maxCandidates]uint8

// The scenarios. One with everything in it would not end; each has what its defences are against.
var (
	leads    = electing{lease: 3, claim: 2, keep: 4, wishes: each{2, 2}, leaves: 1, ends: 1, lapses: 1}
	repeats  = electing{lease: 3, claim: 2, keep: 4, wishes: each{2, 1}, faults: 2}
	dies     = electing{lease: 3, claim: 2, keep: 4, wishes: each{2, 2}, crashes: 1, faults: 1}
	forced   = electing{lease: 3, claim: 2, keep: 4, wishes: each{2, 1}, forces: 1, faults: 1}
	wiped    = electing{lease: 3, claim: 2, keep: 4, wishes: each{2, 1}, losses: 1, faults: 1}
	watched  = electing{lease: 2, claim: 2, keep: 3, wishes: each{2, 1}, watched: true, breaks: 1}
	unheard  = electing{lease: 2, claim: 2, keep: 3, wishes: each{1, 1}, watched: true, faults: 1}
	again    = electing{lease: 2, claim: 2, keep: 3, wishes: each{2, 0}, watched: true, faults: 1}
	deserted = electing{lease: 2, claim: 2, keep: 3, wishes: each{1, 1}, watched: true, crashes: 1, breaks: 1}
	deleted  = electing{lease: 2, claim: 2, keep: 3, wishes: each{1, 1}, watched: true, forces: 1, slow: true}
)

// large are the bounds of this level: those for a longer look, if model.Large says so. With
// -short candidates campaign less often.
func large(m electing) electing {
	if testing.Short() && m.wishes[1] > 0 {
		m.wishes = each{1, 1}
		if m.watched && m.breaks == 0 || m.crashes > 0 && m.watched {
			m = one(m)
		}
	}
	if !model.Large() {
		return m
	}
	switch {
	case m.watched && m.wishes == (each{1, 1}):
		m.lease, m.keep = 3, 4
	case m.watched && m.breaks > 0: // it is large as it is
	case m.crashes > 0:
		m.ends++
	case m.watched || m.wishes == (each{2, 2}):
		m.lapses++
	default:
		m.leaves++
	}
	return m
}

// TestElectionModel: in no state that can be reached is a promise broken.
func TestElectionModel(t *testing.T) {
	model.Run(t, "election model", electing.explore, []model.Scenario[electing]{
		{"leads", large(leads)},
		{"repeats", large(repeats)},
		{"dies", large(dies)},
		{"forced", large(forced)},
		{"server forgets", large(wiped)},
		{"watched", large(watched)},
		{"watched, and loses requests", large(unheard)},
		{"watched, and dies", large(deserted)},
		{"watched, and the same process again", large(again)},
		{"watched, and forced", large(deleted)},
	})
}
