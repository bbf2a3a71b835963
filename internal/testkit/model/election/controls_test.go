package election

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
)

// TestElectionModelControls: without any one of the defences there is a way to break a promise, and
// the model finds it.
func TestElectionModelControls(t *testing.T) {
	model.Controls(t, "election model", electing.explore, []model.Control[electing, model.Defence]{
		{"grant: each has a token of its own", newToken, leads, errToken},
		{"announce: by the holder only, and not in place of a later one", holderOnly | notOlder, repeats, errUnknown},
		{"announce: by the holder only", holderOnly, repeats, errUnheld},
		{"announce: not in place of a later one", notOlder | freshTerm, again, errBackwards},
		{"announce: what is said has an end", saidEnds, leads, errEndless},
		{"announce: observers are told", tellsAnnounce, one(watched), model.ErrStuck},
		{"release: what was said goes with the lock", releaseDeletes, leads, errLeft},
		{"release: only of the holder", releaseOwner, leads, errUnknown},
		{"release: observers are told", tellsRelease, one(watched), model.ErrStuck},
		{"renew: what was said lasts for longer too", renewSaid, leads, errUnknown},
		{"leader: who said it holds the lock", leaderHolds, deserted, errUntrue},
		{"client: each campaign has an owner id of its own", freshTerm, again, errUntrue},
		{"client: who cannot announce itself gives the leadership back", givesBack, repeats, errKept},
		{"client: a leader leads when it has announced itself", announces, leads, errSilent},
		{"client: a leader's context ends by its own clock", deadline, leads, errTwo},
		{"the same, where nobody has the lock yet", deadline, leads, errCut},
		{"Run: it waits for the function before it campaigns", waitLead, leads, errBeside},
		{"the same, when it leads again", waitLead, leads, errFunctions},
		{"Run: and before it resigns", resignAfter, leads, errWork},
		{"observer: a message makes it look", hears, one(watched), model.ErrStuck},
		{"observer: it looks when it listens", looksFirst, one(watched), model.ErrStuck},
		{"observer: and when it listens again", looksAgain, one(watched), model.ErrStuck},
		{"observer: and when the lease would have ended", looksEnd, one(deserted), model.ErrStuck},
		{"observer: and when it got no answer", retries, one(unheard), model.ErrStuck},
	})
}
