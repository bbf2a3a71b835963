package line

// label names a step, for each waiter or client that may take it.
type label [max(MaxWaiters, MaxClients)]string

var loud = map[string]bool{}

// Loud reports whether a step is a fault, or a wish that is not the end of something. All other
// steps are quiet: by these alone everything comes to rest.
func Loud(label string) bool { return loud[label] }

// LoudLabel makes a label of a loud step.
func LoudLabel(text string) string {
	loud[text] = true
	return text
}

func of(first rune, text string, isLoud bool) (l label) {
	for i := range l {
		if l[i] = string(first+rune(i)) + ": " + text; isLoud {
			loud[l[i]] = true
		}
	}
	return l
}

func waiterDoes(text string) label { return of('a', text, false) }
func waiterLoud(text string) label { return of('a', text, true) }
func clientDoes(text string) label { return of('A', text, false) }
func clientLoud(text string) label { return of('A', text, true) }

// What a waiter does, and what happens to it.
var (
	wants          = waiterLoud("wants the lock")
	tries          = waiterLoud("tries it once")
	asks           = waiterDoes("asks the server")
	askedUnheard   = waiterLoud("asks, and hears no answer")
	askedLate      = waiterLoud("asks, and the request is late")
	answer         = waiterDoes("gets the answer: granted")
	takes          = waiterDoes("takes what a message said it was handed")
	handsOn        = waiterDoes("hands the lock on")
	unlocks        = waiterDoes("unlocks")
	unlockUnheard  = waiterLoud("unlocks, and hears no answer")
	unlockLate     = waiterLoud("unlocks, and the request is late")
	renews         = waiterLoud("renews")
	renewed        = waiterDoes("gets the answer to its renewal")
	renewalUnheard = waiterLoud("renews, and hears no answer")
	renewalLate    = waiterLoud("renews, and the request is late")
	givesUp        = waiterLoud("gives up")
	leaves         = waiterLoud("leaves")
	leavesAsking   = waiterLoud("leaves while it asks")
	undoes         = waiterDoes("an undo releases")
	lateAnswer     = waiterDoes("the answer to a caller who left")
	lateUnheard    = waiterLoud("no answer to a caller who left")
	dropped        = waiterDoes("a late request is lost")
	straggler      = waiterDoes("a late request arrives")
)

// What a client does, and what happens to it.
var (
	breaks       = clientLoud("its mailbox breaks")
	lineEnds     = clientDoes("stops to listen, for nobody waits")
	notices      = clientDoes("notices that its mailbox broke")
	listens      = clientDoes("its mailbox is confirmed")
	mailArrives  = clientDoes("a message arrives")
	polls        = clientDoes("polls")
	pollUnheard  = clientLoud("polls, and hears no answer")
	joins        = clientDoes("asks for places together")
	joinUnheard  = clientLoud("asks for places together, and hears no answer")
	joinLost     = clientLoud("asks for places together, and the request is lost")
	pauses       = clientLoud("stands still")
	goesOn       = clientDoes("goes on")
	dies         = clientLoud("dies")
	diesAsking   = clientLoud("dies while it asks")
	deathNoticed = clientDoes("the server notices that it died")
)

// What happens to all.
var (
	tick    = "time passes"
	lost    = LoudLabel("the server loses its keys")
	ends    = "the queue's keys end"
	restart = LoudLabel("the server restarts without its keys")
)
