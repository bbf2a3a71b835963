package keep

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/model"
)

func TestMain(m *testing.M) { leak.Main(m) }

// keeping is the model. Time goes in ticks; a hold is trusted for a tick less than its lease.
type keeping struct {
	lease   uint8
	block   uint8 // tokens that are reserved
	wishes  uint8 // of A
	rival   uint8 // of B, which waits
	tries   uint8 // of B, which does not
	faults  uint8 // answers that do not come in time
	breaks  uint8 // of the connection of A's mailbox
	silent  uint8 // calls that are lost
	forces  uint8
	closes  uint8
	expires bool // it counts that an idle lock is given back
	off     model.Defence
	only    error
	cut     int
}

func (m *keeping) start() state {
	s := state{faults: m.faults, breaks: m.breaks, silent: m.silent, forces: m.forces, closes: m.closes}
	s.a.wishes, s.b.wishes, s.b.tries = m.wishes, m.rival, m.tries
	return s
}

func (m keeping) explore(off model.Defence, only error) (model.Report, error) {
	m.off, m.only = off, only
	return model.Explore(model.Model[state]{
		Start: m.start(), Next: m.next, Check: m.check, Goal: m.served, Only: only, Cut: &m.cut,
	})
}

// The scenarios. Only where calls are lost does it count that an idle lock is given back.
var (
	calls  = keeping{lease: 3, block: 2, wishes: 3, rival: 1, tries: 1}
	breaks = keeping{lease: 3, block: 2, wishes: 3, rival: 1, breaks: 1}
	loses  = keeping{lease: 3, block: 2, wishes: 3, rival: 1, faults: 1}
	silent = keeping{lease: 3, block: 2, wishes: 3, rival: 1, breaks: 1, silent: 2, expires: true}
	forced = keeping{lease: 3, block: 2, wishes: 3, rival: 1, forces: 1}
	closes = keeping{lease: 3, block: 2, wishes: 2, rival: 1, faults: 1, closes: 1}
)

// large are the bounds of this level: those for a longer look, if model.Large says so.
func large(m keeping) keeping {
	if !model.Large() {
		return m
	}
	m.lease, m.tries = 4, 1
	return m
}

// TestKeepModel: in no state that can be reached is a promise broken.
func TestKeepModel(t *testing.T) {
	model.Run(t, "model of keeping", keeping.explore, []model.Scenario[keeping]{
		{"calls", large(calls)},
		{"breaks", large(breaks)},
		{"loses", large(loses)},
		{"silent", large(silent)},
		{"forced", large(forced)},
		{"closes", large(closes)},
	})
}

// TestKeepModelControls: without any one of the defences there is a way to break a promise.
func TestKeepModelControls(t *testing.T) {
	model.Controls(t, "model of keeping", keeping.explore, []model.Control[keeping, model.Defence]{
		{"the server is asked who listens", asks, calls, model.ErrStuck},
		{"and not before the calls arrive", asksHearing, calls, model.ErrStuck},
		{"nor before they were interrupted", gaps, breaks, model.ErrStuck},
		{"a call that comes meanwhile is not forgotten", wantedFirst, calls, model.ErrStuck},
		{"who waits asks once more when it listens", listensThen, calls, model.ErrStuck},
		{"an idle lock that is called is given back", givesBack, calls, model.ErrStuck},
		{"what is being given back is nobody's", overThen, calls, errCut},
		{"the id of a tenure is not used again", freshID, loses, errCut},
		{"what cannot be trusted is not taken", trusted, calls, errStale},
		{"nor what may be released late", strayPass, loses, errCut},
		{"an idle lock is given back after a while", idleEnds, silent, model.ErrStuck},
	})
}
