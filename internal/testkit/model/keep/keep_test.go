package keep

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

// Defences of the client.
const (
	asks        model.Defence = server.Own << iota // the server is asked who listens before the lock is kept
	asksHearing                                    // what was asked before the calls arrived does not count
	gaps                                           // nor what was asked before they were interrupted
	wantedFirst                                    // a call that comes while the server is asked is not forgotten
	listensThen                                    // who waits asks once more when it listens
	givesBack                                      // an idle lock that is called is given back
	overThen                                       // a lock that is being given back is nobody's any more
	freshID                                        // the id of a tenure is not used again
	trusted                                        // a lock whose lease is nearly over is not taken
	strayPass                                      // a lock is not kept after a question that may arrive late
	idleEnds                                       // an idle lock is given back after a while
)

// What A does.
const (
	idle    uint8 = iota
	asking        // its acquire is under way
	holding       // its trust is at least 1
	passing       // its last unlock asks who listens
	leaving       // its last unlock releases
	kept          // nobody of it holds the lock
	giving        // that is being given back
)

// Kinds of requests.
const (
	acquire uint8 = iota + 1
	pass
	release
)

// request is one of A's.
type request struct {
	kind, id uint8
}

// keeper is A. Its owner has another id in each tenure.
type keeper struct {
	mode   uint8
	gen    uint8
	trust  uint8
	op     request
	at     uint8 // how that stands
	age    uint8
	again  bool // an earlier attempt of it got no answer
	lo, hi uint8
	next   uint8 // of its tokens
	last   uint8
	box    model.Link
	calls  uint8 // under way
	hears  bool
	sure   bool // the server has said that nobody listens
	gap    bool // calls may have been missed since it was asked
	first  bool // and no call had been heard before that
	wanted bool
	wishes uint8
	closed bool
}

// What B does. It is never disturbed, so its own lease does not matter.
const (
	away uint8 = iota
	asks1
	subscribes
	asks2
	sleeps
	has
	returns
)

// waiter is B.
type waiter struct {
	mode    uint8
	at      uint8 // none: sent; else the answer
	listens bool  // as the server knows
	told    bool  // a wake-up is under way, or has come
	wishes  uint8
	tries   uint8 // attempts that do not wait
	once    bool  // this is one
}

type state struct {
	wrong       model.Broken
	server.Keys // their owner is an id of A, or theirs
	a           keeper
	b           waiter
	net         [2]request // of A, that nobody waits for
	undo        uint8      // an id that is released in the background until it is certain
	top         uint8      // the greatest token that a holder had
	faults      uint8
	breaks      uint8
	silent      uint8 // calls that may still be lost without a word
	forces      uint8
	closes      uint8
	forced      bool
}

type steps = model.Steps[state]

const theirs = 255

func (a *keeper) id() uint8 { return a.gen + 1 }

func TestMain(m *testing.M) { leak.Main(m) }

// keeping is the model. Time goes in ticks; a hold is trusted for a tick less than its lease.
type keeping struct {
	lease   uint8
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

func (m keeping) explore(off model.Defence, only error) (model.Report, error) {
	m.off, m.only = off, only
	s := state{faults: m.faults, breaks: m.breaks, silent: m.silent, forces: m.forces, closes: m.closes}
	s.a.wishes, s.b.wishes, s.b.tries = m.wishes, m.rival, m.tries
	return model.Explore(model.Model[state]{
		Start: s, Next: m.next, Check: m.check, Goal: m.served, Only: only, Cut: &m.cut,
	})
}

type scenario = model.Scenario[keeping]

// block is the number of tokens that a grant reserves.
const block = 2

// The scenarios. Only where calls are lost does it count that an idle lock is given back.
var (
	calls  = scenario{"calls", keeping{lease: 3, wishes: 3, rival: 1, tries: 1}}
	breaks = scenario{"breaks", keeping{lease: 3, wishes: 3, rival: 1, breaks: 1}}
	loses  = scenario{"loses", keeping{lease: 3, wishes: 3, rival: 1, faults: 1}}
	silent = scenario{"silent", keeping{lease: 3, wishes: 3, rival: 1, breaks: 1, silent: 2, expires: true}}
	forced = scenario{"forced", keeping{lease: 3, wishes: 3, rival: 1, forces: 1}}
	closes = scenario{"closes", keeping{lease: 3, wishes: 2, rival: 1, faults: 1, closes: 1}}
)

// large are the bounds of this level: those for a longer look, if model.Large says so; with -short fewer calls.
func large(m keeping) keeping {
	if testing.Short() {
		m.wishes = 2
	}
	if !model.Large() {
		return m
	}
	m.lease, m.tries = 4, 1
	return m
}

// TestKeepModel: in no state that can be reached is a promise broken.
func TestKeepModel(t *testing.T) {
	model.Run(t, "model of keeping", keeping.explore, large, calls, breaks, loses, silent, forced, closes)
}

// TestKeepModelControls: without any one of the defences there is a way to break a promise.
func TestKeepModelControls(t *testing.T) {
	model.Controls(t, "model of keeping", keeping.explore, []model.Control[keeping]{
		{"the server is asked who listens", asks, calls, model.ErrStuck},
		{"and not before the calls arrive", asksHearing, calls, model.ErrStuck},
		{"nor before they were interrupted", gaps, breaks, model.ErrStuck},
		{"a call that comes meanwhile is not forgotten", wantedFirst, calls, model.ErrStuck},
		{"who waits asks once more when it listens", listensThen, calls, model.ErrStuck},
		{"an idle lock that is called is given back", givesBack, calls, model.ErrStuck},
		{"what is being given back is nobody's", overThen, calls, model.ErrCut},
		{"the id of a tenure is not used again", freshID, loses, model.ErrCut},
		{"what cannot be trusted is not taken", trusted, calls, errStale},
		{"nor what may be released late", strayPass, loses, model.ErrCut},
		{"an idle lock is given back after a while", idleEnds, silent, model.ErrStuck},
	})
}

// What must never be, beside what package model lists.
var errStale = model.Must.Never("a lock is taken whose lease cannot be trusted")

func (m *keeping) check(s *state) error {
	broken := s.wrong
	if s.a.mode == holding && !s.forced {
		broken.If(s.b.mode == has, model.ErrTwo)
		broken.If(s.Owner != s.a.id(), model.ErrCut)
	}
	return model.Must.First(broken, m.only)
}

// served is the goal: B has had what it waited for. Quiet steps happen by themselves; none is there to save a waiter.
func (m *keeping) served(s *state) bool { return s.b.wishes == 0 && s.b.mode == away }
