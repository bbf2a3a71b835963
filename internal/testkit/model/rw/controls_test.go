package rw

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
)

// TestReadWriteModelControls: without any one of the defences there is a way to break a promise,
// and the model finds it.
func TestReadWriteModelControls(t *testing.T) {
	model.Controls(t, "model of the read-write lock", rwlock.explore, []model.Control[rwlock, model.Defence]{
		{"read: who writes keeps readers out", readSeesWriter, shares, errAlone},
		{"read: who comes waits for a writer that waits", readerWaits, turning, errPassed},
		{"read: but for one only", ticketCounts, turning, errTurns},
		{"read: who reads or writes already does not wait", whoReadsPasses, fewer(calls), model.ErrStuck},
		{"read: the token is that of the last write", readToken, turning, errRead},
		{"read: a late attempt does not set the count back", readCountKept, reenters, errCount},
		{"read: nor the lease", readLeaseKept, extends, errCut},
		{"read: the hash lasts as long as the longest lease", hashLasts, shares, errCut},
		{"both: a grant has a time to live", leaseOfGrant, shares, errEndless},
		{"both: one that comes late refuses itself", lateness, leavesWriting, errLeft},
		{"the same, where it reads", lateness, leavesReading, errLeft},
		{"the same, where it takes a place", lateness, leavesWriting, errPlace},
		{"write: readers keep a writer out", writeSeesReaders, shares, errAlone},
		{"write: those whose leases have ended do not", deadReaders, shares, errOutlived},
		{"write: a repeated attempt gets the outcome of the first", againFlag, reenters, errItself},
		{"write: a token is greater than the last", tokenGrows, turning, errToken},
		{"the same, where the clock was set back", tokenGrows, forgets, errToken},
		{"write: who is refused has a place", placeTaken, turning, errPassed},
		{"write: who is granted has none, nor who leaves", placeAtGrant | placeWithdrawn, leavesWriting, errPlace},
		{"release: who leaves has no place", placeWithdrawn, yields, errPlace},
		{"release: that the last place was withdrawn is announced", placeTold, yields, errUntold},
		{"release: a place that is over is none", overIsNone, yields, errUntold},
		{"release: by the owner only", releaseOwner, leavesWriting, errAnothers},
		{"the same, as its victim sees it", releaseOwner, leavesWriting, errCut},
		{"release: of a write it is announced", writeTold, turning, errUntold},
		{"the same, where no time passes", writeTold, fewer(calls), model.ErrStuck},
		{"release: of a write it leaves the owner's read", downgrade, reenters, errCut},
		{"release: and others may read then", downgradeMode, calls, errShut},
		{"release: of the last read it is announced", readTold, shares, errUntold},
		{"release: of a read it leaves others'", othersStay, shares, errCut},
		{"release: but dead ones do not stay", othersLooked, shares, errUntold},
		{"recount: counts are absolute", absolute, reenters, errCount},
		{"renew: never brings back", renewExists, stays, errBack},
		{"renew: never shortens", renewKeeps, extends, errCut},
		{"leave: the lock stays taken", leaveStays, stays, errEarly},
		{"leave: that it ends earlier is announced", leaveTold, stays, errAsleep},
		{"leave: what comes late does not find the owner", leaveRenames, stays, errLonger},
		{"all: a stay that is over ends, though its owner reads on", stayEnds, stays, errShut},
		{"both: who is refused is told when the stay ends", staySaid, stays, errAsleep},
		{"release: a lock that stays taken lasts no longer than that", stayShortens, stays, errLonger},
		{"force: those only who were seen", forceSeen, forced, errAnothers},
		{"client: trust counts from the sending", fromSending, shares, errCut},
		{"the same, with another who holds", fromSending, turning, errAlone},
		{"client: trust ends by its own clock", deadline, turning, errAlone},
		{"client: an owner id with a straggler is not used again", fresh | undo, leavesReading, errCut},
		{"client: nor is one that is being given back", fresh, leavesReading, errCut},
		{"client: who writes and reads by another name says so", siblings, callsLost, model.ErrStuck},
		{"client: who reads does not ask to write", upgrade, fewer(calls), model.ErrStuck},
		{"client: a waiter with a straggler says so", againWaiting, reenters, errItself},
		{"client: what may be left is given back", undo, leavesWriting, errLeft},
		{"client: and given back again", undoAgain, leavesReading, errLeft},
		{"client: so is the place of one who left while it asked", undoPlace, yields, errPlace},
		{"client: who waits asks once more when it listens", listensThen, fewer(calls), model.ErrStuck},
		{"client: and when it was cut off", noticesBreak, fewer(calls), model.ErrStuck},
		{"client: who waits looks when what it knows has ended", looks, shares, errAsleep},
	})
}
