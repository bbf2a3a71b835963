package line

import "github.com/holdfast-go/holdfast/lua"

// wants is a user that wants the lock next.
func (l *Line) wants(w uint8) {
	wr := &l.From.Waiters[w]
	if wr.Mode != Away || wr.Wishes == 0 || wr.Gen == gens {
		return
	}
	if l.Prompt && w > 0 && l.From.Waiters[w-1].Wishes > 0 {
		return // one order of arrival is enough
	}
	n := l.Begin()
	n.Waiters[w].Wishes--
	n.Waiters[w].Mode, n.Waiters[w].Wake = Asking, true
	if n.Known.Has(l.Home[w]) {
		l.join(w)
	}
	l.Step(wants[w])
	if !l.Tries || w+1 < l.Waiters {
		return
	}
	n = l.Begin()
	n.Waiters[w].Wishes--
	if a := l.execute(Request{Kind: Acquire, ID: OwnerID(w, wr.Gen)}); a.Status == lua.Done {
		n.Waiters[w].Mode, n.Waiters[w].Granted, n.Waiters[w].Lasts = Asking, a.Token, l.Lease-1
	}
	l.Step(tries[w])
}

// join gives a waiter a place in the line of its client. It asks for one at the server as soon as
// its client listens.
func (l *Line) join(w uint8) {
	wr := &l.To.Waiters[w]
	wr.Mode, wr.Wake = Entering, false
	if l.To.Known.Has(l.Home[w]) {
		wr.Mode, wr.Wake = Waiting, true
	}
}

// refused is what a waiter makes of a refusal: it does not trust a message of a grant from before
// it. That told of another grant to the same owner, or of one that was lost.
func (l *Line) refused(w uint8) {
	wr := &l.To.Waiters[w]
	wr.Asked = true
	if l.Off.Has(OwnMessage) {
		wr.Wake = wr.Handed != 0
		return
	}
	wr.Handed, wr.Stands, wr.Run = 0, 0, Run{}
	for i := range l.To.Mail {
		if m := &l.To.Mail[i]; m.Owner == OwnerID(w, wr.Gen) {
			m.Old = true
		}
	}
}

// attempts are requests for the lock, and what comes of them.
func (l *Line) attempts(w uint8) {
	wr := &l.From.Waiters[w]
	if wr.Granted != 0 {
		l.Begin()
		if l.take(w, wr.Granted, wr.Lasts, Run{}) {
			l.Step(answer[w])
		}
		return
	}
	if wr.Mode == Waiting && wr.Asked && wr.Wake && wr.Stands > 0 {
		l.Begin()
		if l.take(w, wr.Handed, wr.Stands, wr.Run) {
			l.Step(takes[w])
		}
	}
	if wr.Mode != Asking && wr.Mode != Waiting || !wr.Wake {
		return
	}
	request := Request{Kind: Acquire, ID: OwnerID(w, wr.Gen), Again: wr.Stray, Place: wr.Mode == Waiting}
	l.Begin()
	if l.asks(w, request) {
		l.Step(asks[w])
	}
	l.unanswered(w, request, askedUnheard, askedLate, func() bool {
		l.To.Waiters[w].Stray = true
		return true
	})
}

// asks is a request with its answer; false if the bounds have no room for what follows.
func (l *Line) asks(w uint8, request Request) bool {
	wr := &l.To.Waiters[w]
	wr.Wake = false
	switch a := l.execute(request); {
	case a.Status == lua.Done:
		wr.Granted, wr.Lasts = a.Token, l.Lease-1
	case a.Status == Excess: // its caller gets an error
		if wr.Mode == Waiting {
			return l.undone(w, wr.Stray)
		}
		return l.end(w)
	case wr.Mode == Asking:
		l.join(w)
	default:
		l.refused(w)
	}
	return true
}

// unanswered is a request that gets no answer in time, either because that is lost or because the
// request itself is late. then is what its sender makes of that; false if the bounds have no room.
func (l *Line) unanswered(w uint8, r Request, unheard, late label, then func() bool) {
	if !l.frail(l.Home[w]) {
		return
	}
	l.Begin().Faults--
	l.execute(r)
	if then() {
		l.Step(unheard[w])
	}
	l.Begin().Faults--
	l.keep(r)
	if then() {
		l.Step(late[w])
	}
}

// take begins a hold.
func (l *Line) take(w, token, left uint8, next Run) bool {
	if left == 0 {
		return l.undone(w, true)
	}
	wr := &l.To.Waiters[w]
	*wr = Waiter{Mode: Has, Gen: wr.Gen, Wishes: wr.Wishes, Stray: wr.Stray, Token: token, Trust: left, Run: next}
	if next != (Run{}) {
		wr.Field = OwnerID(w, wr.Gen)
	}
	return true
}

// joins are the requests of several waiters of one client for their first places, in one script.
func (l *Line) joins(c uint8) {
	owners, by, many := l.owners(c, func(w uint8) bool {
		wr := &l.From.Waiters[w]
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
	if l.Kind.ExecuteFor(request, c, owners).Status != lua.Done { // else they ask one by one, and none has been refused
		l.Step(joins[c])
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
	l.Kind.ExecuteFor(request, c, owners)
	l.Step(joinUnheard[c])
	unanswered()
	l.Step(joinLost[c])
}

// owners are those of a client's waiters that wait and that a rule chooses, by whom, and how many.
func (l *Line) owners(c uint8, chosen func(w uint8) bool) (owners Owners, by [MaxWaiters]uint8, many int) {
	for w := range l.Waiters {
		if wr := &l.From.Waiters[w]; l.Home[w] == c && wr.Mode == Waiting && chosen(w) {
			owners[many], by[many] = OwnerID(w, wr.Gen), w
			many++
		}
	}
	return owners, by, many
}

// holds are the renewals and the end of a hold.
func (l *Line) holds(w uint8) {
	wr := &l.From.Waiters[w]
	if wr.Mode != Has || wr.Trust == 0 {
		return
	}
	if l.Begin(); l.Kind.HandOn(w) {
		l.Step(handsOn[w])
	} else {
		l.unlocks(w)
	}
	switch {
	case wr.Renewed > 0:
		n := &l.Begin().Waiters[w]
		n.Trust, n.Renewed = max(wr.Trust, wr.Renewed), 0
		l.Step(renewed[w])
	case wr.Trust < l.Lease-1:
		l.renews(w)
	}
}

func (l *Line) unlocks(w uint8) {
	request := Request{Kind: Release, ID: l.From.Entry(w), Served: l.From.Waiters[w].Served}
	n := l.Begin()
	if a := l.execute(request); a.Status == lua.Done {
		n.Waiters[w].Served = Run{}
	}
	if l.end(w) {
		l.Step(unlocks[w])
	}
	l.unanswered(w, request, unlockUnheard, unlockLate, func() bool { return l.undone(w, true) })
}

func (l *Line) renews(w uint8) {
	request := Request{Kind: Renewal, ID: l.From.Entry(w)}
	n := l.Begin()
	if a := l.execute(request); a.Status == lua.Done {
		n.Waiters[w].Renewed = l.Lease - 1
		l.Step(renews[w])
		if l.frail(l.Home[w]) {
			l.Begin().Faults--
			l.execute(request)
			l.Step(renewalUnheard[w])
		}
	} else if l.end(w) {
		l.Step(renews[w])
	}
	if l.frail(l.Home[w]) {
		l.Begin().Faults--
		l.keep(request)
		l.Step(renewalLate[w])
	}
}

// leaves are callers that wait no longer, and attempts that are given up.
func (l *Line) leaves(w uint8) {
	wr := &l.From.Waiters[w]
	if wr.Mode == Away || wr.Mode == Has {
		return
	}
	if l.Begin(); wr.Stray && wr.Wake && l.undone(w, true) {
		l.Step(givesUp[w])
	}
	if l.From.Leaves == 0 || l.Home[w] >= l.Harmed {
		return
	}
	l.Begin().Leaves--
	ok := false
	if wr.Granted != 0 || wr.Mode == Waiting && !wr.Stray {
		ok = l.undone(w, wr.Granted != 0)
	} else {
		ok = l.end(w)
	}
	if ok {
		l.Step(leaves[w])
	}
	if wr.Mode != Entering && wr.Wake && wr.Granted == 0 {
		n := l.Begin()
		n.Leaves--
		l.Rest(w, true)
		if n.send(Request{Kind: Late, ID: OwnerID(w, wr.Gen), Again: wr.Stray, Place: wr.Mode == Waiting}) {
			l.Step(leavesAsking[w])
		} else {
			l.Cut++
		}
	}
}

// end is the end of a hold or of a wait; what may have been left is given back. False: the bounds
// have no room.
func (l *Line) end(w uint8) bool {
	if wr := &l.To.Waiters[w]; wr.Stray || wr.Served != (Run{}) {
		return l.undone(w, wr.Stray)
	}
	l.Rest(w, false)
	return true
}

// undone ends a wait or a hold, and begins to give back what the server may have, or get, of it.
func (l *Line) undone(w uint8, stray bool) bool {
	wr := &l.To.Waiters[w]
	owner, served := l.To.Entry(w), wr.Served
	if l.Off.Has(ServedGiven) {
		served = Run{}
	}
	wr.Stray = wr.Stray || stray
	stray = wr.Stray
	l.Rest(w, true)
	if l.beginUndo(owner, stray, served) {
		return true
	}
	l.Cut++
	return false
}

// Rest makes a waiter one that wants nothing, under another owner id if something of this one may
// still be on its way.
func (l *Line) Rest(w uint8, undoing bool) {
	wr := &l.To.Waiters[w]
	gen := wr.Gen
	if (wr.Stray || l.NewOwners) && !l.Off.Has(FreshOwner) || undoing && !l.Off.Has(FreshUndo) ||
		wr.Field != 0 && !l.Off.Has(ServedFresh) {
		gen++
	}
	*wr = Waiter{Gen: gen, Wishes: wr.Wishes}
}
