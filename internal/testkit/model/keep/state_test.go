package keep

import (
	"cmp"

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

// Where A's calls arrive.
const (
	off    uint8 = iota // nowhere
	on                  // at a connection of which A does not know yet
	heard               // at A
	broken              // nowhere, and A does not know yet
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
	box    uint8
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

func order(a, b request) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id)) }
