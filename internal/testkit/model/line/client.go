package line

import "github.com/holdfast-go/holdfast/lua"

// wants is a user that wants the lock next.
func (l *Line) wants(w uint8) {
	wr := &l.from.Waiters[w]
	if wr.Mode != Away || wr.Wishes == 0 || wr.Gen == gens {
		return
	}
	if l.Prompt && w > 0 && l.from.Waiters[w-1].Wishes > 0 {
		return // one order of arrival is enough
	}
	n := l.Begin()
	n.Waiters[w].Wishes--
	n.Waiters[w].Mode, n.Waiters[w].Wake = Asking, true
	if n.Known.Has(l.Home[w]) {
		l.join(w)
	}
	l.Loud(waiter(w), "wants the lock")
	if !l.Tries || w+1 < l.Waiters {
		return
	}
	n = l.Begin()
	n.Waiters[w].Wishes--
	if a := l.execute(Request{Kind: Acquire, ID: OwnerID(w, wr.Gen)}); a.Status == lua.Done {
		n.Waiters[w].Mode, n.Waiters[w].Granted, n.Waiters[w].Lasts = Asking, a.Token, l.Lease-1
	}
	l.Loud(waiter(w), "tries it once")
}

// join gives a waiter a place in the line of its client. It asks for one at the server as soon as its client listens.
func (l *Line) join(w uint8) {
	wr := &l.to.Waiters[w]
	wr.Mode, wr.Wake = Entering, false
	if l.to.Known.Has(l.Home[w]) {
		wr.Mode, wr.Wake = Waiting, true
	}
}

// refused: the waiter distrusts a grant's message from before, of another grant to the same owner, or of a lost one.
func (l *Line) refused(w uint8) {
	wr := &l.to.Waiters[w]
	wr.Asked = true
	if l.Off.Has(OwnMessage) {
		wr.Wake = wr.Handed != 0
		return
	}
	wr.Handed, wr.Stands, wr.Run = 0, 0, Run{}
	for i := range l.to.Mail {
		if m := &l.to.Mail[i]; m.Owner == OwnerID(w, wr.Gen) {
			m.Old = true
		}
	}
}

// attempts are requests for the lock, and what comes of them.
func (l *Line) attempts(w uint8) {
	wr := &l.from.Waiters[w]
	if wr.Granted != 0 {
		l.Begin()
		l.take(w, wr.Granted, wr.Lasts, Run{})
		l.Quiet(waiter(w), "gets the answer: granted")
		return
	}
	if wr.Mode == Waiting && wr.Asked && wr.Wake && wr.Stands > 0 {
		l.Begin()
		l.take(w, wr.Handed, wr.Stands, wr.Run)
		l.Quiet(waiter(w), "takes what a message said it was handed")
	}
	if wr.Mode != Asking && wr.Mode != Waiting || !wr.Wake {
		return
	}
	request := wr.asks(Acquire, w)
	l.Begin()
	l.asks(w, request)
	l.Quiet(waiter(w), "asks the server")
	l.unanswered(w, request, "asks, and hears no answer", "asks, and the request is late", func() {
		l.to.Waiters[w].Stray = true
	})
}

// asks is the request of a waiter for the lock.
func (wr *Waiter) asks(kind, w uint8) Request {
	return Request{Kind: kind, ID: OwnerID(w, wr.Gen), Again: wr.Stray, Place: wr.Mode == Waiting}
}

// asks is such a request with its answer.
func (l *Line) asks(w uint8, request Request) {
	wr := &l.to.Waiters[w]
	wr.Wake = false
	switch a := l.execute(request); {
	case a.Status == lua.Done:
		wr.Granted, wr.Lasts = a.Token, l.Lease-1
	case a.Status == Excess: // its caller gets an error
		if wr.Mode == Waiting {
			l.undone(w, wr.Stray)
		} else {
			l.stops(w)
		}
	case wr.Mode == Asking:
		l.join(w)
	default:
		l.refused(w)
	}
}

// unanswered is a request whose answer is lost, or that is late itself. then is what its sender makes of that.
func (l *Line) unanswered(w uint8, r Request, unheard, late string, then func()) {
	if !l.frail(l.Home[w]) {
		return
	}
	l.Begin().Faults--
	l.execute(r)
	then()
	l.Loud(waiter(w), unheard)
	l.Begin().Faults--
	l.keep(r)
	then()
	l.Loud(waiter(w), late)
}

// take begins a hold.
func (l *Line) take(w, token, left uint8, next Run) {
	if left == 0 {
		l.undone(w, true)
		return
	}
	wr := &l.to.Waiters[w]
	*wr = Waiter{Mode: Has, Gen: wr.Gen, Wishes: wr.Wishes, Stray: wr.Stray, Token: token, Trust: left, Run: next}
	if next != (Run{}) {
		wr.Field = OwnerID(w, wr.Gen)
	}
}

// joins are the requests of several waiters of one client for their first places, in one script.
func (l *Line) joins(c uint8) {
	owners, by, many := l.owners(c, func(w uint8) bool {
		wr := &l.from.Waiters[w]
		return l.Together[w] && wr.Wake && !wr.Asked && !wr.Stray
	})
	if many < 2 {
		return
	}
	request := Request{Kind: Joins, ID: owners[0]}
	n := l.Begin()
	// The answer is of a moment before it: messages of what the script grants are trusted.
	for _, w := range by[:many] {
		l.refused(w)
		n.Waiters[w].Wake = false
	}
	if l.server.ExecuteFor(request, c, owners).Status != lua.Done { // else they ask one by one, and none has been refused
		l.Quiet(client(c), "asks for places together")
	}
	if !l.frail(c) {
		return
	}
	unanswered := func() {
		n := l.Begin()
		n.Faults--
		for _, w := range by[:many] {
			n.Waiters[w].Stray = true
		}
	}
	unanswered()
	l.server.ExecuteFor(request, c, owners)
	l.Loud(client(c), "asks for places together, and hears no answer")
	unanswered()
	l.Loud(client(c), "asks for places together, and the request is lost")
}

// owners are those of a client's waiters that wait and that a rule chooses, by whom, and how many.
func (l *Line) owners(c uint8, chosen func(w uint8) bool) (owners Owners, by [MaxWaiters]uint8, many int) {
	for w, wr := range l.of(l.from, c) {
		if wr.Mode == Waiting && chosen(w) {
			owners[many], by[many] = OwnerID(w, wr.Gen), w
			many++
		}
	}
	return owners, by, many
}

// holds are the renewals and the end of a hold.
func (l *Line) holds(w uint8) {
	wr := &l.from.Waiters[w]
	if wr.Mode != Has || wr.Trust == 0 {
		return
	}
	if l.Begin(); l.server.HandOn(w) {
		l.Quiet(waiter(w), "hands the lock on")
	} else {
		l.unlocks(w)
	}
	switch {
	case wr.Renewed > 0:
		n := &l.Begin().Waiters[w]
		n.Trust, n.Renewed = max(wr.Trust, wr.Renewed), 0
		l.Quiet(waiter(w), "gets the answer to its renewal")
	case wr.Trust < l.Lease-1:
		l.renews(w)
	}
}

func (l *Line) unlocks(w uint8) {
	request := Request{Kind: Release, ID: l.from.Entry(w), Served: l.from.Waiters[w].Served}
	n := l.Begin()
	if a := l.execute(request); a.Status == lua.Done {
		n.Waiters[w].Served = Run{}
	}
	l.stops(w)
	l.Quiet(waiter(w), "unlocks")
	l.unanswered(w, request, "unlocks, and hears no answer", "unlocks, and the request is late",
		func() { l.undone(w, true) })
}

func (l *Line) renews(w uint8) {
	request := Request{Kind: Renewal, ID: l.from.Entry(w)}
	n := l.Begin()
	if a := l.execute(request); a.Status == lua.Done {
		n.Waiters[w].Renewed = l.Lease - 1
		l.Loud(waiter(w), "renews")
		if l.frail(l.Home[w]) {
			l.Begin().Faults--
			l.execute(request)
			l.Loud(waiter(w), "renews, and hears no answer")
		}
	} else {
		l.stops(w)
		l.Loud(waiter(w), "renews")
	}
	if l.frail(l.Home[w]) {
		l.Begin().Faults--
		l.keep(request)
		l.Loud(waiter(w), "renews, and the request is late")
	}
}

// leaves are callers that wait no longer, and attempts that are given up.
func (l *Line) leaves(w uint8) {
	wr := &l.from.Waiters[w]
	if wr.Mode == Away || wr.Mode == Has {
		return
	}
	if wr.Stray && wr.Wake {
		l.Begin()
		l.undone(w, true)
		l.Loud(waiter(w), "gives up")
	}
	if l.from.Leaves == 0 || l.Home[w] >= l.Harmed {
		return
	}
	l.Begin().Leaves--
	if wr.Granted != 0 || wr.Mode == Waiting && !wr.Stray {
		l.undone(w, wr.Granted != 0)
	} else {
		l.stops(w)
	}
	l.Loud(waiter(w), "leaves")
	if wr.Mode != Entering && wr.Wake && wr.Granted == 0 {
		l.Begin().Leaves--
		l.Rest(w, true)
		l.send(wr.asks(Late, w))
		l.Loud(waiter(w), "leaves while it asks")
	}
}

// stops is the end of a hold or of a wait; what may have been left is given back.
func (l *Line) stops(w uint8) {
	if wr := &l.to.Waiters[w]; wr.Stray || wr.Served != (Run{}) {
		l.undone(w, wr.Stray)
	} else {
		l.Rest(w, false)
	}
}

// undone ends a wait or a hold, and begins to give back what the server may have, or get, of it.
func (l *Line) undone(w uint8, stray bool) {
	wr := &l.to.Waiters[w]
	owner, served := l.to.Entry(w), wr.Served
	if l.Off.Has(ServedGiven) {
		served = Run{}
	}
	wr.Stray = wr.Stray || stray
	stray = wr.Stray
	l.Rest(w, true)
	l.beginUndo(owner, stray, served)
}

// Rest makes a waiter one that wants nothing, under another owner id if something of this one may still be on its way.
func (l *Line) Rest(w uint8, undoing bool) {
	wr := &l.to.Waiters[w]
	gen := wr.Gen
	if (wr.Stray || l.NewOwners) && !l.Off.Has(FreshOwner) || undoing && !l.Off.Has(FreshUndo) ||
		wr.Field != 0 && !l.Off.Has(ServedFresh) {
		gen++
	}
	*wr = Waiter{Gen: gen, Wishes: wr.Wishes}
}
