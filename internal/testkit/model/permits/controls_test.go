package permits

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
)

// TestPermitsModelControls: without any one of the defences there is a way to break a promise, and the
// model finds it.
func TestPermitsModelControls(t *testing.T) {
	model.Controls(t, "permits model", semaphore.explore, []model.Control[semaphore, defence]{
		{"acquire: no more is granted than is free", looksFree, again, errTooMany},
		{"grant: no more is handed out than is free", handsFree, handsOver, errGranted},
		{"the same, as clients see it", handsFree, handsOver, errTooMany},
		{"grant: who wants less does not pass who wants more", inOrder, handsOver, errPassed},
		{"acquire: nobody passes the head", asksHead, handsOver, errPassed},
		{"acquire: what the head leaves goes to those behind it", handsRest, handsOver, errIdle},
		{"acquire: who has permits is told so", ownGrant, loses, errItself},
		{"acquire: what a repeat finds of its owner is counted", ownGrant | takesOwn | countsNew, loses, errLost},
		{"the same, after a claim has ended", takesOwn | countsNew, loses, errLost},
		{"hold: what Redisson has left of an owner's is not counted again", countsNew, shared, errLost},
		{"release: all permits of an owner come back", countsAll, again, errLost},
		{"release: it counts none that the owner did not have", countsGone, departs, errInvented},
		{"sweep: those whose leases have ended are counted", countsEnded, perishes, errLost},
		{"set: what is out is a part of the number", setsAll, resized, errInvented},
		{"renew: nothing is brought back", renewsOwn, loses, errInvented},
		{"tokens are greater than the last", newTokens, again, errToken},
		{"acquire: who wants more than there are is told", onlySoMany, pair(resized), model.ErrStuck},
		{"grant: who wants more than there are has no place any more", manyDropped, resized, errIdle},
		{"grant: and is told, where no poll tells it", manyTold | tellsMissing, pair(resized), model.ErrStuck},
		{"grant: it matters whether anybody listens", heedsCount, handsOver, errDeaf},
		{"grant: who cannot be reached keeps its place", keepsPlace, handsOver, errLostPlace},
		{"grant: a claim has an end", claimEnds, perishes, errClaim},
		{"the same, for those behind it", claimEnds, pair(perishes), model.ErrStuck},
		{"grant: a claim is for less than a lease that nobody renews", claimIsShort, loses, errClaim},
		{"grant: a client that let a claim end is passed over", silentPassed, silent, errClaims},
		{"grant: which is known before anything is handed out", sweepsFirst, silent, errClaims},
		{"release: who leaves has no place any more", leaverGone, departs, errPlaceLeft},
		{"release: what is freed is handed on", handsOn, handsOver, errIdle},
		{"the same, where nobody polls either", handsOn | pollAtAll, pair(handsOver), model.ErrStuck},
		{"acquire: who has a place gets no other", oncePlaced, loses, errTwice},
		{"poll: it tells who has no place", tellsMissing, pair(wiped), model.ErrStuck},
		{"poll: it tells who was handed permits", tellsGiven | tellsMissing | noticesBreak, misses, errWasted},
		{"poll: it puts places off", refreshes, waits, errLostPlace},
		{"client: it polls, also while messages come", pollInTime, waits, errLostPlace},
		{"client: it polls", pollAtAll, pair(perishes), model.ErrStuck},
		{"client: the same, for a client that was not reached", pollAtAll | noticesBreak, pair(handsOver), model.ErrStuck},
		{"client: a claim is trusted from the grant on", grantTime, freezes, errTooMany},
		{"client: no message is trusted from before a refusal", ownMessage, wiped, errPlaceLeft},
		{"client: a hold is trusted for less than its lease", trustEnds, perishes, errCut},
		{"the same, with another who holds", trustEnds, again, errTooMany},
		{"client: an owner id is used for one acquisition", freshOwner, departs, errCut},
		{"client: what may be left is given back", undo, departs, errPlaceLeft},
		{"client: and given back again", undoAgain, departs, errPlaceLeft},
		{"the same, where a straggler takes permits", undoAgain, departs, errLeft},
		{"acquire: one that comes late refuses itself", lateness, departs, errPlaceLeft},
		{"the same, where it takes permits", lateness, departs, errLeft},
	})
}
