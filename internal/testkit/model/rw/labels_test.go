package rw

// Labels of steps. Those of a hold are there for each side.
const (
	lReenter = iota
	lReenterUnheard
	lReenterLate
	lPartial
	lPartialUnheard
	lPartialLate
	lUnlock
	lUnlockUnheard
	lUnlockLate
	lExtend
	lLeave
	lRenews
	lRenewed
	lRenewalLate
	lSides
)

const (
	lWants = int(sides)*lSides + iota
	lWantsToRead
	lAsks
	lAskedUnheard
	lAskedLate
	lAnswer
	lListens
	lBreaks
	lNotices
	lLeaves
	lLeavesAsking
	lDies
	lUndoes
	lLateAnswer
	lLateUnheard
	lDropped
	lStraggler
	lCount
)

const (
	tickLabel  = "time passes"
	lostLabel  = "the server loses its keys"
	backLabel  = "the server's clock is set back"
	seeLabel   = "somebody looks who has the lock"
	forceLabel = "somebody forces out who had it"
)

var holdTexts = [lSides]string{
	"re-enters", "re-enters, hears nothing and sends again", "re-enters, sends again, and the first may come late",
	"unlocks, but not the last", "unlocks, not the last, hears nothing and sends again",
	"unlocks, not the last, sends again, and the first may come late",
	"unlocks the last", "unlocks the last and hears nothing", "unlocks the last, which may come late",
	"has a longer lease", "unlocks early what is to stay taken", "renews", "gets the answer to its renewal",
	"renews, which may come late",
}

var texts = [lCount - int(sides)*lSides]string{
	"wants to write", "wants to read", "asks", "asks and hears nothing", "asks, which may come late", "gets the answer",
	"listens", "is cut off from messages", "notices that it was cut off", "its caller leaves",
	"its caller leaves while it asks", "dies", "gives back", "is answered after its caller left",
	"gets no answer after its caller left", "a late request is lost", "a late request arrives",
}

// labels are by client and step; loud are those that are not quiet: faults, wishes that are not
// ends, and what may as well be left undone.
var labels, loud = func() (all [maxClients][lCount]string, loud map[string]bool) {
	loud = map[string]bool{lostLabel: true, backLabel: true, seeLabel: true}
	for c := range all {
		who := string(rune('A'+c)) + ": "
		for l, text := range holdTexts {
			for side, what := range [sides]string{"writes: ", "reads: "} {
				label := who + what + text
				all[c][side*lSides+l] = label
				loud[label] = l != lPartial && l != lUnlock && l != lLeave && l != lRenewed
			}
		}
		for i, text := range texts {
			l := i + int(sides)*lSides
			all[c][l] = who + text
			switch l {
			case lWants, lWantsToRead, lAskedUnheard, lAskedLate, lBreaks, lLeaves, lLeavesAsking, lDies, lLateUnheard:
				loud[all[c][l]] = true
			}
		}
	}
	return all, loud
}()
