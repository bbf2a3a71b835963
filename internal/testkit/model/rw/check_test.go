package rw

import (
	"cmp"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// What must never be.
var (
	errToken    = model.Must.Never("a write's token that is not greater than all before it")
	errRead     = model.Must.Never("a read's token that is not the last write's")
	errBack     = model.Must.Never("a hold that had ended was brought back")
	errEarly    = model.Must.Never("the lock was granted while it was to stay taken")
	errLonger   = model.Must.Never("a lock that its holder has left stays taken for longer than it was to")
	errPassed   = model.Must.Never("a reader who came later passed a writer that waits")
	errTurns    = model.Must.Never("a reader was to wait for a second writer")
	errShut     = model.Must.Never("a reader was refused though nobody writes or waits to write")
	errOutlived = model.Must.Never("a writer was refused though nobody writes and no reader's lease lasts")
	errUntold   = model.Must.Never("a command let in somebody who listens and was not told")
	errEndless  = model.Must.Never("a key has no end")
	errAlone    = model.Must.Never("a client trusts that it writes, and another that it writes or reads")
	errCount    = model.Must.Never("the server's hold count is not the holder's")
	errAsleep   = model.Must.Never("a client sleeps for longer than a place counts, and would be granted the lock")
	errPlace    = model.Must.Never("a place is kept for nobody, and nothing is on its way that would withdraw it")
)

// judgeRead judges the answer to an attempt to read. An attempt that is late may not have the ticket of its client.
func (m *rwlock) judgeRead(s *state, before *server, r message, a answer) {
	cl := &s.clients[clientOf(r.id)]
	asker := cl.id == r.id && cl.ticket == r.count
	if a.status != lua.Done {
		byWriter := before.mode == writing && !before.writes(r.id) && before.writer != 0 && !before.over()
		again := asker && cl.asked && cl.let
		s.wrong.If(!byWriter && again, errTurns)
		s.wrong.If(!byWriter && !again && before.waiting() == 0, errShut)
		return
	}
	s.wrong.If(s.wrote != 0 && a.token != s.wrote, errRead)
	s.top = max(s.top, a.token)
	m.granted(s, before)
	if before.reads(r.id) || before.writes(r.id) || r.beside != 0 && before.writes(r.beside) || asker && cl.let ||
		!asker && r.count > 0 {
		return
	}
	for c := range m.clients {
		s.wrong.If(s.clients[c].waited > 0 && c != clientOf(r.id), errPassed)
	}
}

// judgeWrite judges the answer to an attempt to write.
func (m *rwlock) judgeWrite(s *state, before *server, r message, a answer) {
	cl := &s.clients[clientOf(r.id)]
	if a.status != lua.Done {
		s.wrong.If((before.mode == reading || before.over()) && before.rest() == 0, errOutlived)
		if cl.id == r.id && cl.side == write && cl.granted == 0 {
			cl.waited = m.place
		}
		return
	}
	cl.waited = 0
	if before.writes(r.id) && a.token == s.wrote {
		return // once more
	}
	s.wrong.If(a.token <= s.top, errToken)
	s.top, s.wrote = a.token, a.token
	m.granted(s, before)
	for c := range m.clients {
		if other := &s.clients[c]; other.id != 0 && other.side == read && other.asked {
			other.let = true
		}
	}
}

func (m *rwlock) granted(s *state, before *server) {
	s.wrong.If(s.stays > 0, errEarly)
	if s.clock != 0 && before.token != s.token {
		s.clock++ // no two grants are of one microsecond
	}
}

// judge compares what all owners but some have before and after a command.
func (m *rwlock) judge(s *state, before *server, kind uint8, but uint16) {
	ask := kind == askWrite || kind == askRead || kind == lateWrite || kind == lateRead
	for id := range uint8(ids) {
		old, now := before.readers[id], s.readers[id]
		stood, stands := old.count > 0 && before.ttl > 0, now.count > 0
		s.wrong.If(!ask && stands && !stood, errBack)
		s.wrong.If(but&(1<<id) == 0 && stood && old.lease > 0 && old != now, model.ErrAnothers)
	}
	wrote := before.writer != 0 && !before.over() && (but&(1<<(before.writer-1))) == 0
	s.wrong.If(wrote && (s.writer != before.writer || s.left != before.left), model.ErrAnothers)
	s.wrong.If(!ask && s.writer != 0 && before.writer == 0, errBack)
	s.wrong.If(s.stays > 0 && s.ttl > before.ttl && kind != renewRead, errLonger) // who wrote may go on reading
}

// wouldBe reports whether a client that waits would be granted the lock if it asked.
func (m *rwlock) wouldBe(k server, cl *client) bool {
	if cl.side == read {
		return k.read(0, cl.id, 1, cl.ticket, cl.held[write].id).status == lua.Done
	}
	return k.write(0, cl.id, 1, 0, cl.stray).status == lua.Done
}

// asleep reports whether a client waits for a message, and none is on its way.
func (cl *client) asleep() bool {
	return cl.id != 0 && cl.asked && cl.granted == 0 && !cl.wake && cl.sub == model.Heard
}

// judgeTold: whom a command lets in, who listens, is told.
func (m *rwlock) judgeTold(s *state, before *server) {
	for c := range m.clients {
		cl := &s.clients[c]
		s.wrong.If(cl.asleep() && m.wouldBe(s.server, cl) && !m.wouldBe(*before, cl), errUntold)
	}
}

// check is what is wrong with a state. Where keys are lost there is a promise about the tokens of writes alone.
func (m *rwlock) check(s *state) error {
	broken := s.wrong
	if m.losses > 0 {
		return model.Must.First(broken.Only(errToken), m.only)
	}
	m.checkKeys(s, &broken)
	if !s.forced {
		m.checkHolds(s, &broken)
	}
	if !m.still {
		m.checkSleep(s, &broken)
	}
	if m.brief {
		m.checkLeft(s, &broken)
	}
	return model.Must.First(broken, m.only)
}

func (m *rwlock) checkKeys(s *state, broken *model.Broken) {
	broken.If(s.fields() != (s.mode != nobody) || s.mode != nobody && (s.ttl == 0 || s.ttl > m.longest()) ||
		s.places != [ids]uint8{} && (s.keptFor == 0 || s.keptFor > m.place), errEndless)
	broken.If(s.left && s.readers == [ids]reader{} && s.ttl > s.stay, errLonger)
	for _, r := range s.readers {
		broken.If(r.lease > m.longest() || s.ttl < r.lease && r.count > 0 && m.only == nil, errEndless)
	}
}

// longest is the longest lease there is.
func (m *rwlock) longest() uint8 { return max(m.long, m.leases[0], m.leases[1], m.leases[2]) }

func (m *rwlock) checkHolds(s *state, broken *model.Broken) {
	for c := range m.clients {
		w, r := &s.clients[c].held[write], &s.clients[c].held[read]
		clean := func(id, side uint8) bool { return s.dirty&(1<<(id-1+side*ids)) == 0 }
		if w.id != 0 {
			broken.If(!s.writes(w.id), model.ErrCut)
			broken.If(clean(w.id, write) && s.count != w.holds, errCount)
			for d := range m.clients {
				broken.If(d != c && s.clients[d].held != [sides]hold{}, errAlone)
			}
		}
		if r.id != 0 {
			broken.If(!s.reads(r.id) || s.readers[r.id-1].lease == 0, model.ErrCut)
			broken.If(clean(r.id, read) && s.readers[r.id-1].count != r.holds, errCount)
		}
	}
}

// checkSleep: nobody sleeps for long who would be granted the lock. Who was told of a place looks when that has ended.
func (m *rwlock) checkSleep(s *state, broken *model.Broken) {
	for c := range m.clients {
		cl := &s.clients[c]
		broken.If(cl.asleep() && (cl.look > m.place || cl.look == 0) && m.wouldBe(s.server, cl), errAsleep)
	}
}

// checkLeft is for requests that arrive however late; what only takes room and can do no harm is lost when it is late.
func (m *rwlock) checkLeft(s *state, broken *model.Broken) {
	for id := uint8(1); id <= ids; id++ {
		cl, its := &s.clients[clientOf(id)], func(r message) bool { return r.id == id }
		if s.crashed&(1<<(id-1)) != 0 || cl.id == id || model.Count(s.net[:], its) > 0 {
			continue // it is dead, or something of it is expected
		}
		broken.If(s.reads(id) && s.ttl > 0 && cl.held[read].id != id || s.writes(id) && cl.held[write].id != id,
			model.ErrLeft)
		broken.If(s.places[id-1] > 1 && cl.held[write].id != id, errPlace)
	}
}

// free is the goal: nobody has the lock, and nobody does anything.
func (m *rwlock) free(s *state) bool {
	busy := func(cl client) bool { return cl.id != 0 || cl.held != [sides]hold{} }
	return s.mode == nobody && s.net[0] == (message{}) && s.places == [ids]uint8{} && !slices.ContainsFunc(s.clients[:], busy)
}

// TestReadWriteModelControls: without any one of the defences there is a way to break a promise.
func TestReadWriteModelControls(t *testing.T) {
	model.Controls(t, "model of the read-write lock", rwlock.explore, []model.Control[rwlock]{
		{"read: who writes keeps readers out", readSeesWriter, shares, errAlone},
		{"read: who comes waits for a writer that waits", readerWaits, turning, errPassed},
		{"read: but for one only", ticketCounts, turning, errTurns},
		{"read: who reads or writes already does not wait", whoReadsPasses, fewer(calls), model.ErrStuck},
		{"read: the token is that of the last write", readToken, turning, errRead},
		{"read: a late attempt does not set the count back", readCountKept, reenters, errCount},
		{"read: nor the lease", readLeaseKept, extends, model.ErrCut},
		{"read: the hash lasts as long as the longest lease", hashLasts, shares, model.ErrCut},
		{"both: a grant has a time to live", leaseOfGrant, shares, errEndless},
		{"both: one that comes late refuses itself", lateness, leavesWriting, model.ErrLeft},
		{"the same, where it reads", lateness, leavesReading, model.ErrLeft},
		{"the same, where it takes a place", lateness, leavesWriting, errPlace},
		{"write: readers keep a writer out", writeSeesReaders, shares, errAlone},
		{"write: those whose leases have ended do not", deadReaders, shares, errOutlived},
		{"write: a repeated attempt gets the outcome of the first", againFlag, reenters, model.ErrItself},
		{"write: a token is greater than the last", tokenGrows, turning, errToken},
		{"the same, where the clock was set back", tokenGrows, forgets, errToken},
		{"write: who is refused has a place", placeTaken, turning, errPassed},
		{"write: who is granted has none, nor who leaves", placeAtGrant | placeWithdrawn, leavesWriting, errPlace},
		{"release: who leaves has no place", placeWithdrawn, yields, errPlace},
		{"release: that the last place was withdrawn is announced", placeTold, yields, errUntold},
		{"release: a place that is over is none", overIsNone, yields, errUntold},
		{"release: by the owner only", releaseOwner, leavesWriting, model.ErrAnothers},
		{"the same, as its victim sees it", releaseOwner, leavesWriting, model.ErrCut},
		{"release: of a write it is announced", writeTold, turning, errUntold},
		{"the same, where no time passes", writeTold, fewer(calls), model.ErrStuck},
		{"release: of a write it leaves the owner's read", downgrade, reenters, model.ErrCut},
		{"release: and others may read then", downgradeMode, calls, errShut},
		{"release: of the last read it is announced", readTold, shares, errUntold},
		{"release: of a read it leaves others'", othersStay, shares, model.ErrCut},
		{"release: but dead ones do not stay", othersLooked, shares, errUntold},
		{"recount: counts are absolute", absolute, reenters, errCount},
		{"renew: never brings back", renewExists, stays, errBack},
		{"renew: never shortens", renewKeeps, extends, model.ErrCut},
		{"leave: the lock stays taken", leaveStays, stays, errEarly},
		{"leave: that it ends earlier is announced", leaveTold, stays, errAsleep},
		{"leave: what comes late does not find the owner", leaveRenames, stays, errLonger},
		{"all: a stay that is over ends, though its owner reads on", stayEnds, stays, errShut},
		{"both: who is refused is told when the stay ends", staySaid, stays, errAsleep},
		{"release: a lock that stays taken lasts no longer than that", stayShortens, stays, errLonger},
		{"force: those only who were seen", forceSeen, forced, model.ErrAnothers},
		{"client: trust counts from the sending", fromSending, shares, model.ErrCut},
		{"the same, with another who holds", fromSending, turning, errAlone},
		{"client: trust ends by its own clock", deadline, turning, errAlone},
		{"client: an owner id with a straggler is not used again", fresh | undo, leavesReading, model.ErrCut},
		{"client: nor is one that is being given back", fresh, leavesReading, model.ErrCut},
		{"client: who writes and reads by another name says so", siblings, callsLost, model.ErrStuck},
		{"client: who reads does not ask to write", upgrade, fewer(calls), model.ErrStuck},
		{"client: a waiter with a straggler says so", againWaiting, reenters, model.ErrItself},
		{"client: what may be left is given back", undo, leavesWriting, model.ErrLeft},
		{"client: and given back again", undoAgain, leavesReading, model.ErrLeft},
		{"client: so is the place of one who left while it asked", undoPlace, yields, errPlace},
		{"client: who waits asks once more when it listens", listensThen, fewer(calls), model.ErrStuck},
		{"client: and when it was cut off", noticesBreak, fewer(calls), model.ErrStuck},
		{"client: who waits looks when what it knows has ended", looks, shares, errAsleep},
	})
}

func TestMain(m *testing.M) { redistest.Main(m) }

// rwlock is the model within bounds. Its network loses, delays and reorders what was sent on different connections.
//
// Time goes in ticks, for all clocks alike; a hold is trusted for a tick less than its lease.
// Processes are always scheduled: a client notices in the same tick that its trust is over.
type rwlock struct {
	clients  int                      // default 2
	frail    int                      // how many of them meet faults, leave and die; default 1
	wishes   [maxClients][sides]uint8 // how often each wants to write, and to read
	leases   [maxClients]uint8        // ticks
	long     uint8                    // a lease that was extended; 0: nobody does that
	place    uint8                    // for how long that of a writer counts, ticks
	rest     uint8                    // for how long a lock stays taken whose writer unlocks it; 0: it is free
	depth    uint8                    // of re-entries
	messages int                      // that were given up and may still arrive, at a time; default 1
	faults   uint8                    // answers that do not come in time
	leavers  uint8
	crashes  uint8
	breaks   uint8 // of subscriptions
	losses   uint8 // of the server's keys, or of its time
	forces   uint8
	renews   bool // there is a watchdog
	brief    bool // of late requests only those that may take the lock arrive later than a tick
	still    bool // no time passes: who waits is helped by messages alone
	off      model.Defence
	only     error // look for this violation alone
	cut      int   // messages for which the bounds had no room
}

func (m *rwlock) start() state {
	s := state{
		faults: m.faults, leaves: m.leavers, crashes: m.crashes, breaks: m.breaks, losses: m.losses, forces: m.forces,
	}
	if m.losses > 0 {
		s.clock = 2 * clockStep
	}
	for c := range m.clients {
		s.clients[c].wishes = m.wishes[c]
	}
	return s
}

// explore also looks whether all waiters can be granted and all can rest from everywhere, without faults, renewals, new wishes.
func (m rwlock) explore(off model.Defence, only error) (model.Report, error) {
	m = bounded(m)
	m.off, m.only = off, only
	explored := model.Model[state]{
		Start: m.start(), Next: m.next, Check: m.check, Only: only, Cut: &m.cut,
		Settle: func(s *state) bool { return bool(!s.full) },
	}
	if m.losses == 0 {
		explored.Goal = m.free
	}
	return model.Explore(explored)
}

type (
	wishes   = [maxClients][sides]uint8
	leases   = [maxClients]uint8
	scenario = model.Scenario[rwlock]
)

// The scenarios. One with everything in it would not end; each has what its defences are against.
var (
	reenters = scenario{"re-enters", rwlock{wishes: wishes{{1, 1}, {1, 0}}, leases: leases{2, 2}, depth: 2, faults: 1}}
	extends  = scenario{"extends", rwlock{wishes: wishes{{1, 1}, {1, 0}}, leases: leases{2, 2}, long: 4, faults: 1,
		renews: true}}
	shares = scenario{"shares", rwlock{clients: 3, wishes: wishes{{0, 2}, {0, 1}, {1, 0}}, leases: leases{2, 4, 3},
		crashes: 1, renews: true}}
	both = scenario{"writes and reads", rwlock{wishes: wishes{{1, 1}, {1, 1}}, leases: leases{2, 3},
		crashes: 1, renews: true}}
	turning = scenario{"takes turns", rwlock{clients: 3, wishes: wishes{{1, 0}, {0, 2}, {1, 0}}, leases: leases{2, 2, 2}}}
	yields  = scenario{"yields", rwlock{clients: 3, frail: 2, wishes: wishes{{1, 0}, {1, 0}, {0, 2}},
		leases: leases{2, 2, 4}, leavers: 1, crashes: 1, brief: true}}
	leavesWriting = scenario{"leaves, and writes", rwlock{wishes: wishes{{2, 0}, {0, 1}}, leases: leases{2, 2},
		messages: 2, faults: 1, leavers: 1, brief: true}}
	leavesReading = scenario{"leaves, and reads", rwlock{wishes: wishes{{0, 2}, {1, 0}}, leases: leases{2, 2},
		messages: 2, faults: 1, leavers: 1, brief: true}}
	calls = scenario{"no time", rwlock{clients: 3, frail: 2, wishes: wishes{{1, 1}, {1, 1}, {0, 1}},
		leases: leases{2, 2, 2}, breaks: 1, leavers: 1, still: true}}
	callsLost = scenario{"no time, and loses requests", rwlock{wishes: wishes{{1, 2}, {1, 1}}, leases: leases{2, 2},
		faults: 1, still: true}}
	stays = scenario{"stays", rwlock{wishes: wishes{{1, 1}, {0, 1}}, leases: leases{4, 2}, rest: 1, faults: 1,
		renews: true}}
	forced = scenario{"forced", rwlock{clients: 3, wishes: wishes{{1, 0}, {0, 2}, {0, 1}}, leases: leases{2, 2, 2},
		forces: 1, renews: true}}
	forgets = scenario{"server forgets", rwlock{wishes: wishes{{1, 1}, {1, 0}}, leases: leases{2, 2}, losses: 1}}
)

// bounded gives a scenario the common bounds; by model.Large more wishes, more that goes wrong, and places that last longer.
func bounded(m rwlock) rwlock {
	m.place, m.depth = 2, max(m.depth, 1)
	m.clients, m.frail, m.messages = cmp.Or(m.clients, 2), cmp.Or(m.frail, 1), cmp.Or(m.messages, 1)
	switch {
	case !model.Large():
	case m.losses > 0:
		m.wishes[1][read] = 1
	case m.clients == 3:
		m.place, m.breaks = 3, 2*m.breaks
	case m.faults > 0:
		m.messages, m.faults = 2, 2
	}
	return m
}

// fewer takes wishes away: three clients have at most one for each side, and a second that writes does not read.
func fewer(s scenario) scenario {
	w := &s.In.wishes
	if w[1][write] > 0 {
		w[1][read] = 0
	}
	for c := range w {
		for side := range w[c] {
			if s.In.clients == 3 {
				w[c][side] = min(w[c][side], 1)
			}
		}
	}
	return s
}

// short gives a scenario fewer wishes with -short.
func short(m rwlock) rwlock {
	if testing.Short() {
		return fewer(scenario{In: m}).In
	}
	return m
}

// TestReadWriteModel: in no state that can be reached is a promise broken.
func TestReadWriteModel(t *testing.T) {
	model.Run(t, "model of the read-write lock", rwlock.explore, short, reenters, extends, shares, turning, both, yields,
		leavesWriting, leavesReading, calls, callsLost, stays, forced, forgets)
}
