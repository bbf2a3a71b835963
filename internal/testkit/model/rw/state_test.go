package rw

import "github.com/holdfast-go/holdfast/internal/testkit/model"

const (
	// In the scripts.
	readSeesWriter   model.Defence = 1 << iota // read: who writes keeps readers out
	readerWaits                                // read: who comes waits for a writer that waits
	ticketCounts                               // read: but for one only
	whoReadsPasses                             // read: who reads or writes already does not wait for it
	readToken                                  // read: the token is that of the last write
	readCountKept                              // read: a late attempt does not set the count back
	readLeaseKept                              // read: nor the lease
	hashLasts                                  // read: the hash lasts as long as the longest lease
	leaseOfGrant                               // both: a grant has a time to live
	lateness                                   // both: one that comes late refuses itself
	writeSeesReaders                           // write: readers keep a writer out
	deadReaders                                // write: those whose leases have ended do not
	againFlag                                  // write: a repeated attempt gets the outcome of the first
	tokenGrows                                 // write: a token is greater than the last
	placeTaken                                 // write: who is refused has a place
	placeAtGrant                               // write: who is granted has none
	placeWithdrawn                             // release: nor who leaves
	placeTold                                  // release: that the last place was withdrawn is announced
	overIsNone                                 // release: a place that is over is none
	releaseOwner                               // release: only by the owner
	writeTold                                  // release: of a write it is announced
	downgrade                                  // release: of a write it leaves the owner's read
	downgradeMode                              // release: and others may read then
	readTold                                   // release: of the last read it is announced
	othersStay                                 // release: of a read it leaves others'
	othersLooked                               // release: but dead ones do not stay
	absolute                                   // recount: counts are absolute
	renewExists                                // renew: never brings back
	renewKeeps                                 // renew: never shortens
	leaveStays                                 // leave: the lock stays taken
	leaveTold                                  // leave: that it ends earlier is announced
	leaveRenames                               // leave: what comes late does not find the owner
	forceSeen                                  // force: those only who were seen
	stayEnds                                   // all: a stay that is over ends, though its owner reads on
	staySaid                                   // both: who is refused is told when the stay ends
	stayShortens                               // release: a lock that stays taken does not last for longer than its stay

	// In the client.
	fromSending  // trust is counted from the sending, not from the reply
	deadline     // trust ends by the client's own clock
	fresh        // an owner id with a straggler, or that is being given back, is not used again
	siblings     // who writes and wants to read by another name says by which it writes
	upgrade      // who reads does not ask to write
	againWaiting // a waiter with a straggler says so in its next attempts
	undo         // what was left is given back
	undoAgain    // and again, for the straggler that comes after the first time
	undoPlace    // so is the place of one who left before it was refused
	listensThen  // who waits asks once more when it listens
	noticesBreak // and when the connection was broken by which it listened
	looks        // who waits looks when what it was told of has ended
)

// Sides of a lock.
const (
	write uint8 = iota
	read
	sides
)

// hold is what an owner has of one side. Zero: nothing.
type hold struct {
	id      uint8
	holds   uint8
	trust   uint8 // ticks until it cannot be trusted any more
	token   uint8
	renewed uint8 // an answer to a renewal is on its way, and may be trusted for so long
	stray   bool  // a message with its owner id may still arrive
	tainted bool  // a renewal may
	long    bool  // it has extended its lease
}

// client is a process with one owner, whose user does one thing at a time.
type client struct {
	held   [sides]hold
	gen    uint8 // number of its owner id
	wishes [sides]uint8
	dead   bool

	// What it asks for, and waits for.
	id      uint8 // by which; 0: nothing
	side    uint8
	wake    bool  // it is about to ask
	asked   bool  // and was refused
	stray   bool  // an attempt may still arrive
	placed  bool  // it may have a place
	ticket  uint8 // 1 and the ticket; 0: none
	granted uint8 // the token, if an answer is on its way that grants it
	lasts   uint8 // for how long that may be trusted
	look    uint8 // when it looks by itself
	sub     model.Link

	// For the check: what is so, whatever anybody knows.
	let    bool  // since its first refusal it has let a writer go first
	waited uint8 // for how long its place counts
}

// message is a request that nobody waits for any more, or work in the background. Zero: none.
type message struct {
	kind  uint8
	id    uint8
	count uint8 // of a recount; ticket of an attempt to read
	lease uint8
	step  uint8 // of an undo; aged, of an attempt that is late
	// beside is, of an attempt to read, the name by which its owner writes
	beside uint8
	again  bool
}

// Kinds of messages.
const (
	askWrite uint8 = iota + 1
	askRead
	releaseWrite
	releaseRead
	leaveWrite
	recountWrite
	renewWrite
	renewRead // and recount
	// an attempt whose caller left, and whose answer is waited for in the background
	lateWrite
	lateRead
	// releases in the background, one after another
	undoWrite
	undoRead
)

const (
	maxClients  = 3
	maxMessages = 6
	gens        = 3 // owner ids of one client
	ids         = maxClients * gens
)

// state is all there is at one moment.
type state struct {
	wrong model.Broken
	dirty uint32 // owner ids, by side, whose count a straggler wrote last
	server
	clients [maxClients]client
	net     [maxMessages]message
	top     uint8  // the greatest token that anybody was given
	wrote   uint8  // that of the last write
	stays   uint8  // for how long nobody else may be granted the lock
	seen    uint16 // who is to be forced out: a writer's bit, or readers'
	seenBy  uint8  // nobody, or the mode in which they were seen
	crashed uint16 // owner ids whose process died
	forced  bool
	full    model.Full // the bounds have no room for what the step leaves behind
	faults  uint8      // that may still come: lost and late messages
	leaves  uint8
	crashes uint8
	breaks  uint8
	losses  uint8
	forces  uint8
}

type steps = model.Steps[state]

// ownerID is the name of a client's owner in the hash.
func ownerID(c int, gen uint8) uint8 { return uint8(c)*gens + gen + 1 } //nolint:gosec // few

func clientOf(id uint8) int { return int(id-1) / gens }

// kindOf is the kind of a message of one side.
func kindOf(side, ofWrite, ofRead uint8) uint8 {
	if side == write {
		return ofWrite
	}
	return ofRead
}

// background tells work that is under way from requests that were given up.
func (r message) background() bool { return r.kind >= lateWrite }

func (r message) ask() bool { return r.kind == askWrite || r.kind == askRead }
