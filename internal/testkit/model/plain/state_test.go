package plain

import (
	"cmp"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

// Defences of the client; those of the scripts are the server's.
const (
	fromSending  model.Defence = server.Own << iota // trust is counted from the sending, not from the reply
	deadline                                        // trust ends by the client's own clock
	freshOwner                                      // an owner id with a straggler is not used again
	freshUndo                                       // nor is one that is being undone
	againWaiting                                    // a waiter with a straggler says so in its next attempts
	undoDenied                                      // a refusal after a straggler is followed by an undo
	undo                                            // what was left is undone
	undoAgain                                       // and again, for the straggler that comes after the first time
)

// call is an operation of a client that is under way, by its newest attempt.
type call struct {
	kind  uint8 // of message
	at    uint8 // server.None, server.Sent, ...
	count uint8 // of a recount
	lease uint8
	age   uint8 // ticks since it was sent
	token uint8 // of a grant
	again bool  // an earlier attempt may have been executed
}

// What a client does.
const (
	idle    uint8 = iota
	trying        // wants the lock: an acquire is under way, or it was refused and waits
	holding       // holds is at least 1, and so is trust
	leaving       // its last release is under way
)

// client is a process with one owner.
type client struct {
	mode   uint8
	gen    uint8 // number of its owner id
	holds  uint8
	trust  uint8 // ticks until the hold cannot be trusted any more
	lease  uint8 // of renewals
	token  uint8
	wishes uint8 // how often it may still want the lock
	stray  bool  // a message with its owner id may still arrive
	long   bool  // it has extended its lease once
	op     call
	renew  call // the watchdog's
}

// message is a request that nobody waits for any more, or work in the background. Zero: none.
type message struct {
	kind  uint8
	id    uint8
	count uint8 // of a recount; step of an undo; aged, of an acquire that is late
	lease uint8
	again bool
}

// Kinds of calls and messages.
const (
	acquire uint8 = iota + 1
	recount
	release
	renewal
	reentry // these are recounts of a client's own, for their different ends
	unlock
	settle
	extend
	late   // an acquire whose caller left, and whose answer is waited for in the background
	undoer // releases in the background, one after another
)

const (
	maxClients  = 3
	maxMessages = 4
	gens        = 4 // owner ids of one client
)

// state is all there is at one moment.
type state struct {
	wrong   model.Broken
	crashed uint16 // owner ids whose process died
	server.Keys
	clients [maxClients]client
	net     [maxMessages]message
	top     uint8 // the greatest token ever granted
	dirty   bool  // a straggler wrote the count last
	full    bool  // the bounds have no room for what the step leaves behind
	faults  uint8 // that may still come: lost and late messages
	leaves  uint8 // callers that may still give up
	crashes uint8 // processes that may still die
	loss    uint8 // rollbacks of the server that may still come: lost keys or a clock set back
}

type steps = model.Steps[state]

// id is the name of a client's owner in the hash.
func id(c int, gen uint8) uint8 { return uint8(c)*gens + gen + 1 } //nolint:gosec // few

func ownerOf(id uint8) (c int, gen uint8) { return int(id-1) / gens, (id - 1) % gens }

// background tells work that is under way from requests that were given up.
func (r message) background() bool { return r.kind == undoer || r.kind == late }

func order(a, b message) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id), cmp.Compare(a.count, b.count),
		cmp.Compare(a.lease, b.lease), model.Bit(a.again)-model.Bit(b.again))
}
