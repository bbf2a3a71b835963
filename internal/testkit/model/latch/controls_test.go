package latch

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
)

// TestLatchModelControls: without any one of the defences there is a way to break a promise, and the
// model finds it.
func TestLatchModelControls(t *testing.T) {
	model.Controls(t, "latch model", latching.explore, []model.Control[latching, model.Defence]{
		{"count: a repeat counts nothing", countOnce, repeats, errTwice},
		{"the same, where the latch was set anew", countOnce, calls, errTwice},
		{"set: a repeat gets the reply of the first", setAgain, calls, errSaid},
		{"delete: a repeat takes nothing away that was set since", deleteAgain, calls, errTwice},
		{"a call that found nothing to do is remembered too", idleKept, calls, errAfter},
		{"the same, as its caller sees it", idleKept, calls, errSaid},
		{"calls are remembered for as long as repeats may come", keptLong, repeats, errTwice},
		{"one that comes later refuses itself", lateness, one(repeats), errTwice},
		{"the same, where its caller has gone on", lateness, one(calls), errAfter},
		{"each call has an id of its own", freshCall, repeats, errMissed},
		{"set: a latch that is set is left as it is", setOnce, calls, errOver},
		{"set: a latch has an end", staySet, stays, errEndless},
		{"count: which is put off", stayCount, stays, errSooner},
		{"count: and never brought nearer", stayLonger, stays, errSooner},
		{"count: one of Redisson's has none, and gets none", stayForeign, stays, errGiven},
		{"count: the last one is announced", tellsZero, one(waits), model.ErrStuck},
		{"delete: it is announced", tellsDelete, one(waits), model.ErrStuck},
		{"gate: a message makes it look", hears, one(waits), model.ErrStuck},
		{"gate: it looks when it listens", looksFirst, one(waits), model.ErrStuck},
		{"gate: and when it listens again", looksAgain, one(breaks), model.ErrStuck},
		{"gate: and when the latch would have ended", looksEnd, one(waits), model.ErrStuck},
		{"gate: and every half minute", looksRest, one(untold), model.ErrStuck},
		{"gate: and for those who join", kicks, waits, model.ErrStuck},
		{"gate: a look that was begun before says nothing to those", ownLook, waits, errEarly},
	})
}
