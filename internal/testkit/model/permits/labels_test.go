package permits

import "strconv"

// Labels of what a waiter does, and of what happens to it.
const (
	lWants = iota
	lTries
	lAsks
	lAskedUnheard
	lAskedLate
	lAnswer
	lTakes
	lUnlocks
	lUnlockUnheard
	lUnlockLate
	lRenews
	lRenewed
	lRenewalUnheard
	lRenewalLate
	lGivesUp
	lLeaves
	lLeavesAsking
	lUndoes
	lLateAnswer
	lLateUnheard
	lDropped
	lStraggler
	lWaiterLabels
)

// Labels of what happens to a client.
const (
	lBreaks = iota
	lLineEnds
	lNotices
	lListens
	lMail
	lPolls
	lPollUnheard
	lJoins
	lJoinUnheard
	lJoinLost
	lPauses
	lGoesOn
	lDies
	lDiesAsking
	lDeathNoticed
	lClientLabels
)

const (
	tickLabel    = "time passes"
	lostLabel    = "the server loses its keys"
	endLabel     = "the queue's keys end"
	restartLabel = "the server restarts without its keys"
	takesLabel   = "a client of Redisson asks for a permit"
	givesLabel   = "a client of Redisson gives its permit back"
)

var waiterTexts = [lWaiterLabels]string{
	"wants permits", "tries once", "asks the server", "asks, and hears no answer", "asks, and the request is late",
	"gets the answer: granted", "takes what a message said it was handed", "unlocks", "unlocks, and hears no answer",
	"unlocks, and the request is late", "renews", "gets the answer to its renewal", "renews, and hears no answer",
	"renews, and the request is late", "gives up", "leaves", "leaves while it asks", "an undo releases",
	"the answer to a caller who left", "no answer to a caller who left", "a late request is lost",
	"a late request arrives",
}

var clientTexts = [lClientLabels]string{
	"its mailbox breaks", "stops to listen, for nobody waits", "notices that its mailbox broke",
	"its mailbox is confirmed", "a message arrives", "polls", "polls, and hears no answer", "asks for places together",
	"asks for places together, and hears no answer", "asks for places together, and the request is lost",
	"stands still", "goes on", "dies", "dies while it asks", "the server notices that it died",
}

// waiterLabels are by waiter, clientLabels by client, setLabels by the number; loud are those that are
// not quiet: faults, and wishes that are not ends.
var waiterLabels, clientLabels, setLabels, loud = func() (w [maxWaiters][lWaiterLabels]string,
	c [maxClients][lClientLabels]string, set [4]string, loud map[string]bool,
) {
	loud = map[string]bool{lostLabel: true, restartLabel: true, takesLabel: true}
	for i := range w {
		for l := range w[i] {
			w[i][l] = string(rune('a'+i)) + ": " + waiterTexts[l]
			switch l {
			case lWants, lTries, lAskedUnheard, lAskedLate, lUnlockUnheard, lUnlockLate, lRenews, lRenewalUnheard,
				lRenewalLate, lGivesUp, lLeaves, lLeavesAsking, lLateUnheard:
				loud[w[i][l]] = true
			}
		}
	}
	for i := range c {
		for l := range c[i] {
			c[i][l] = string(rune('A'+i)) + ": " + clientTexts[l]
			switch l {
			case lBreaks, lPollUnheard, lJoinUnheard, lJoinLost, lPauses, lDies, lDiesAsking:
				loud[c[i][l]] = true
			}
		}
	}
	for i := range set {
		set[i] = "the number of permits is set to " + strconv.Itoa(i)
		loud[set[i]] = true
	}
	return w, c, set, loud
}()
