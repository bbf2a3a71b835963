package quorum

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/server"
)

// TestVoteModelControls: without any one of the defences there is a way to break a promise, and the
// model finds it.
func TestVoteModelControls(t *testing.T) {
	model.Controls(t, "quorum model", voting.explore, []model.Control[voting, model.Defence]{
		{"vote: who has it keeps it", server.VotesOnce, splits, errTwo},
		{"vote: a grant has a time to live", server.GrantEnds, perish, model.ErrStuck},
		{"vote: one that comes late refuses itself", server.Lateness, silent, errLeft},
		{"vote: a token is greater than the last", server.AboveLast, numbers, errToken},
		{"release: by the owner only", server.ReleaseOwner, lateOnes, errTwo},
		{"renew: never brings back", server.RenewExists, rejoins, errBack},
		{"more than half have to agree", majority, splits, errTwo},
		{"a master that was started a moment ago does not count", restarts, forgetting, errTwo},
		{"nor for a holder that it takes back", joinsYoung, rejoins, errTwo},
		{"a holder remembers that a master may have granted to others", gapsKept, visited, errVisited},
		{"only the token that was told shows that there was nobody", exactToken, visited, errVisited},
		{"of a first grant, only one that was known at the win", firstKnown, visited, errVisited},
		{"a first grant after the win, only if there was a token", firstLater, visited, errVisited},
		{"a gap lasts a lease longer", gapLonger, forgotten, errVisited},
		{"one before a first grant as long as an election", gapElects, dawdled, errVisited},
		{"which is not won when it takes longer", electsSoon, dawdled, errVisited},
		{"and it does show it", tokenSpares, spared, errFalse},
		{"nor has a master a gap that was started anew", anewSpares, rolling, errFalse},
		{"an election that is not won is given back", withdraws, silent, errLeft},
		{"each election has an owner id of its own", freshBallot, lateOnes, errTwo},
		{"a release is repeated when a vote comes behind it", undoLate, silent, errLeft},
		{"the same, for a vote of which nothing is heard", undoStray, silent, errLeft},
		{"and not only once", undoAgain, silent, errLeft},
		{"trust is counted from the sending", sentTime, splits, errTwo},
		{"trust ends by the client's own clock", deadline, splits, errTwo},
		{"a token counts when a majority knows it", tellsToken, numbers, errToken},
		{"a token is the greatest that was replied", greatest, numbers, errToken},
		{"of several tokens those are left out that are known", aboveKnown, numbers, errToken},
		{"a proposal is no less than the clock", clockAhead, numberLoss, errToken},
		{"new masters: none may decide against a holder", contests, newOnes, errTwo},
		{"new masters: each is judged anew when an older one is heard", judgedAnew | silence, oneSilent, errTwo},
		{"new masters: one that is younger than the others is not new", together | silence, oneSilent, errTwo},
	})
}
