package permits

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
)

// TestPermitsModelControls: without any one of the defences there is a way to break a promise, and the
// model finds it.
func TestPermitsModelControls(t *testing.T) {
	model.Controls(t, "permits model", semaphore.explore, []model.Control[semaphore, defence]{
		{"acquire: no more is granted than is free", looksFree, again, errTooMany},
		{"grant: no more is handed out than is free", handsFree, handsOver, errGranted},
		{"the same, as clients see it", handsFree, handsOver, errTooMany},
		{"grant: who wants less does not pass who wants more", inOrder, handsOver, line.ErrPassed},
		{"acquire: nobody passes the head", line.AsksHead, handsOver, line.ErrPassed},
		{"acquire: what the head leaves goes to those behind it", handsRest, handsOver, line.ErrIdle},
		{"acquire: who has permits is told so", line.OwnGrant, loses, line.ErrItself},
		{"acquire: what a repeat finds of its owner is counted", line.OwnGrant | takesOwn | countsNew, loses, errLost},
		{"the same, after a claim has ended", takesOwn | countsNew, loses, errLost},
		{"hold: what Redisson has left of an owner's is not counted again", countsNew, shared, errLost},
		{"release: all permits of an owner come back", countsAll, again, errLost},
		{"release: it counts none that the owner did not have", countsGone, departs, errInvented},
		{"sweep: those whose leases have ended are counted", countsEnded, perishes, errLost},
		{"set: what is out is a part of the number", setsAll, resized, errInvented},
		{"renew: nothing is brought back", renewsOwn, loses, errInvented},
		{"tokens are greater than the last", newTokens, again, line.ErrToken},
		{"acquire: who wants more than there are is told", onlySoMany, pair(resized), model.ErrStuck},
		{"grant: who wants more than there are has no place any more", manyDropped, resized, line.ErrIdle},
		{"grant: and is told, where no poll tells it", manyTold | line.TellsMissing, pair(resized), model.ErrStuck},
		{"grant: it matters whether anybody listens", line.HeedsCount, handsOver, line.ErrDeaf},
		{"grant: who cannot be reached keeps its place", line.KeepsPlace, handsOver, line.ErrLostPlace},
		{"grant: a claim has an end", line.ClaimEnds, perishes, line.ErrClaim},
		{"the same, for those behind it", line.ClaimEnds, pair(perishes), model.ErrStuck},
		{"grant: a claim is for less than a lease that nobody renews", line.ClaimIsShort, loses, line.ErrClaim},
		{"grant: a client that let a claim end is passed over", silentPassed, silent, errClaims},
		{"grant: which is known before anything is handed out", sweepsFirst, silent, errClaims},
		{"release: who leaves has no place any more", line.LeaverGone, departs, line.ErrPlaceLeft},
		{"release: what is freed is handed on", line.HandsOn, handsOver, line.ErrIdle},
		{"the same, where nobody polls either", line.HandsOn | line.PollAtAll, pair(handsOver), model.ErrStuck},
		{"acquire: who has a place gets no other", line.OncePlaced, loses, line.ErrTwice},
		{"poll: it tells who has no place", line.TellsMissing, pair(wiped), model.ErrStuck},
		{"poll: it tells who was handed permits", tellsGiven | line.TellsMissing | line.NoticesBreak, misses, errWasted},
		{"poll: it puts places off", line.Refreshes, waits, line.ErrLostPlace},
		{"client: it polls, also while messages come", line.PollInTime, waits, line.ErrLostPlace},
		{"client: it polls", line.PollAtAll, pair(perishes), model.ErrStuck},
		{"client: the same, for a client that was not reached", line.PollAtAll | line.NoticesBreak, pair(handsOver), model.ErrStuck},
		{"client: a claim is trusted from the grant on", line.GrantTime, freezes, errTooMany},
		{"client: no message is trusted from before a refusal", line.OwnMessage, wiped, line.ErrPlaceLeft},
		{"client: a hold is trusted for less than its lease", line.TrustEnds, perishes, line.ErrCut},
		{"the same, with another who holds", line.TrustEnds, again, errTooMany},
		{"client: an owner id is used for one acquisition", freshOwner, departs, line.ErrCut},
		{"client: what may be left is given back", line.Undo, departs, line.ErrPlaceLeft},
		{"client: and given back again", line.UndoAgain, departs, line.ErrPlaceLeft},
		{"the same, where a straggler takes permits", line.UndoAgain, departs, line.ErrLeft},
		{"acquire: one that comes late refuses itself", line.Lateness, departs, line.ErrPlaceLeft},
		{"the same, where it takes permits", line.Lateness, departs, line.ErrLeft},
	})
}
