package fair

// Labels of what a waiter does, and of what happens to it.
const (
	fWants = iota
	fTries
	fAsks
	fAskedUnheard
	fAskedLate
	fAnswer
	fTakes
	fHandsOn
	fUnlocks
	fUnlockUnheard
	fUnlockLate
	fRenews
	fRenewed
	fRenewalUnheard
	fRenewalLate
	fGivesUp
	fLeaves
	fLeavesAsking
	fUndoes
	fLateAnswer
	fLateUnheard
	fDropped
	fStraggler
	fWaiterLabels
)

// Labels of what happens to a client.
const (
	fBreaks = iota
	fLineEnds
	fNotices
	fListens
	fMail
	fPolls
	fPollUnheard
	fPauses
	fGoesOn
	fDies
	fDiesAsking
	fDeathNoticed
	fClientLabels
)

const (
	tickLabel    = "time passes"
	lostLabel    = "the server loses its keys"
	endLabel     = "the queue's keys end"
	restartLabel = "the server restarts without its keys"
)

var waiterTexts = [fWaiterLabels]string{
	"wants the lock", "tries it once", "asks the server", "asks, and hears no answer", "asks, and the request is late",
	"gets the answer: granted", "takes what a message said it was handed", "hands the lock on", "unlocks", "unlocks, and hears no answer",
	"unlocks, and the request is late", "renews", "gets the answer to its renewal", "renews, and hears no answer",
	"renews, and the request is late", "gives up", "leaves", "leaves while it asks", "an undo releases",
	"the answer to a caller who left", "no answer to a caller who left", "a late request is lost",
	"a late request arrives",
}

var clientTexts = [fClientLabels]string{
	"its mailbox breaks", "stops to listen, for nobody waits", "notices that its mailbox broke",
	"its mailbox is confirmed",
	"a message arrives", "polls", "polls, and hears no answer", "stands still", "goes on", "dies", "dies while it asks",
	"the server notices that it died",
}

// waiterLabels are by waiter, clientLabels by client; loud are those that are not quiet: faults,
// and wishes that are not ends.
var waiterLabels, clientLabels, loud = func() (w [maxWaiters][fWaiterLabels]string, c [maxClients][fClientLabels]string,
	loud map[string]bool,
) {
	loud = map[string]bool{lostLabel: true, restartLabel: true}
	for i := range w {
		for l := range w[i] {
			w[i][l] = string(rune('a'+i)) + ": " + waiterTexts[l]
			switch l {
			case fWants, fTries, fAskedUnheard, fAskedLate, fUnlockUnheard, fUnlockLate, fRenews, fRenewalUnheard,
				fRenewalLate,
				fGivesUp, fLeaves, fLeavesAsking, fLateUnheard:
				loud[w[i][l]] = true
			}
		}
	}
	for i := range c {
		for l := range c[i] {
			c[i][l] = string(rune('A'+i)) + ": " + clientTexts[l]
			switch l {
			case fBreaks, fPollUnheard, fPauses, fDies, fDiesAsking:
				loud[c[i][l]] = true
			}
		}
	}
	return w, c, loud
}()
