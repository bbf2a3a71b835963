package line

import "github.com/holdfast-go/holdfast/lua"

// Steps of an undo: a release, a pause that is longer than a message lives, and another release.
// Without a straggler the last is enough.
const (
	undoFirst = 1
	undoPause = 2
	undoLast  = 3
)

// aged is the step of an acquire that its client gave up a while ago: the last release of an undo
// comes after it has become that.
const aged = 1

// execute runs a request at the server.
func (l *Line) execute(r Request) Answer {
	if r.Asks() && r.Step == aged && !l.Off.Has(Lateness) {
		return Answer{Status: lua.Late}
	}
	return l.Kind.Execute(r)
}

// keep leaves a request to the network: it may arrive at any time from here on, or never. Where the
// bounds have no room for it, never.
func (l *Line) keep(r Request) {
	n := 0
	for _, other := range l.To.Net {
		if other != (Request{}) && !other.background() {
			n++
		}
	}
	if n >= l.Messages || !l.To.send(r) {
		l.Cut++
	}
}

// beginUndo begins to give back in the background what an owner, and those served, may have.
func (l *Line) beginUndo(owner uint8, stray bool, served Run) bool {
	step := uint8(undoLast)
	if stray && !l.Off.Has(UndoAgain) {
		step = undoFirst
	}
	return l.Off.Has(Undo) || l.To.send(Request{Kind: Undoer, ID: owner, Step: step, Served: served})
}

// network is what happens to requests that no caller waits for.
func (l *Line) network() {
	for i, r := range l.From.Net {
		if r == (Request{}) {
			return
		}
		w, _ := WaiterOf(r.ID)
		switch {
		case i > 0 && r == l.From.Net[i-1]: // the same again
		case r.background() && l.From.Paused.Has(l.Home[w]):
		case r.Kind == Undoer:
			l.undoes(i, w, r)
		case r.Kind == Late:
			l.lateAnswer(i, w, r)
		default:
			l.without(i)
			l.Step(dropped[w])
			l.without(i)
			l.execute(r)
			l.Step(straggler[w])
		}
	}
}

// without begins a step that takes the i-th request out of the network.
func (l *Line) without(i int) *State {
	n := l.Begin()
	remove(n.Net[:], i)
	return n
}

// undoes is a release by an undo.
func (l *Line) undoes(i int, w uint8, r Request) {
	if r.Step == undoPause {
		return
	}
	n, served := l.without(i), r.Served
	r.Served = Run{}
	l.execute(r)
	for j := range served.Size() {
		l.execute(Request{Kind: Undoer, ID: served[j]})
	}
	r.Step++
	if r.Step > undoLast || n.send(r) {
		l.Step(undoes[w])
	}
}

// lateAnswer is the answer to a caller who left, or that there is none.
func (l *Line) lateAnswer(i int, w uint8, r Request) {
	l.without(i)
	a := l.execute(r)
	nothing := a.Status == Excess || a.Status != lua.Done && !r.Again && !r.Place
	if nothing || l.beginUndo(r.ID, true, Run{}) {
		l.Step(lateAnswer[w])
	}
	if !l.frail(l.Home[w]) {
		return
	}
	l.without(i).Faults--
	l.keep(Request{Kind: Acquire, ID: r.ID, Again: r.Again, Place: r.Place})
	if l.beginUndo(r.ID, true, Run{}) {
		l.Step(lateUnheard[w])
	}
}

// waited reports whether some waiter of a client waits.
func (l *Line) waited(s *State, c uint8) bool {
	for w := range l.Waiters {
		if mode := s.Waiters[w].Mode; l.Home[w] == c && (mode == Waiting || mode == Entering) {
			return true
		}
	}
	return false
}

// wake gives those of a client's waiters a reason to ask that wait, or that just enter.
func (l *Line) wake(c, mode uint8) {
	for w := range l.Waiters {
		if wr := &l.To.Waiters[w]; l.Home[w] == c && wr.Mode == mode {
			wr.Mode, wr.Wake = Waiting, true
		}
	}
}

// listens is the life of a client's mailbox.
func (l *Line) listens(c uint8) {
	from := l.From
	if from.Breaks > 0 && c < l.Harmed && from.Up.Has(c) && !from.Dead.Has(c) {
		l.Begin().Breaks--
		l.unsubscribe(c)
		l.Step(breaks[c])
	}
	if !l.awake(c) {
		return
	}
	switch line := l.waited(from, c); {
	case from.Known.Has(c) && !line:
		l.Begin()
		l.unsubscribe(c)
		l.forgetQueue(c)
		l.Step(lineEnds[c])
	case from.Known.Has(c) && !from.Up.Has(c):
		n := l.Begin()
		n.Known.Put(c, false)
		n.Due.Put(c, true)
		if !l.Off.Has(NoticesBreak) {
			l.wake(c, Waiting)
		}
		l.Step(notices[c])
	case !from.Known.Has(c) && line:
		n := l.Begin()
		n.Known.Put(c, true)
		n.Up.Put(c, true)
		n.Due.Put(c, true)
		l.wake(c, Entering)
		l.Step(listens[c])
	}
	for i, m := range from.Mail {
		if m != (Mail{}) && l.Of(m.Owner) == c {
			remove(l.Begin().Mail[:], i)
			l.arrive(c, m)
			l.Step(mailArrives[c])
		}
	}
}

// forgetQueue is a client that listens no longer, and so does not poll.
func (l *Line) forgetQueue(c uint8) {
	l.To.Known.Put(c, false)
	l.To.Due.Put(c, false)
	l.To.Late.Put(c, false)
}

// arrive is a message in the mailbox of a client.
func (l *Line) arrive(c uint8, m Mail) {
	n := l.To
	if !n.Late.Has(c) || l.Off.Has(PollInTime) { // the queue moves without us, but places have to be put off
		n.Due.Put(c, false)
		n.Late.Put(c, l.Prompt)
	}
	w, gen := WaiterOf(m.Owner)
	wr := &n.Waiters[w]
	if wr.Gen != gen || wr.Mode != Waiting && wr.Mode != Entering {
		return
	}
	if l.Off.Has(GrantTime) {
		m.Left = l.Claim - 1
	}
	if m.Token != 0 && m.Left > 0 && !m.Old {
		wr.Handed, wr.Stands, wr.Run = m.Token, m.Left, m.Run
	}
	wr.Wake = wr.Wake || wr.Mode == Waiting
}

// unsubscribe is what the end of a subscription is to the server. What was under way by it is lost.
func (l *Line) unsubscribe(c uint8) {
	l.To.Up.Put(c, false)
	l.To.unpost(func(m Mail) bool { return l.Of(m.Owner) == c })
}

// polls is a look at the queue. It is one step: a late answer to it would only wake somebody for
// nothing.
func (l *Line) polls(c uint8) {
	if !l.From.Due.Has(c) || l.Off.Has(PollAtAll) {
		return
	}
	owners, by, many := l.owners(c, func(uint8) bool { return true })
	begin := func() (a Answer) {
		n := l.Begin()
		n.Due.Put(c, false)
		n.Late.Put(c, false)
		if many > 0 {
			a = l.Kind.ExecuteFor(Request{Kind: Polls, ID: owners[0]}, c, owners)
		}
		return a
	}
	if many > 0 && l.frail(c) {
		begin()
		l.To.Faults--
		l.Step(pollUnheard[c])
	}
	a := begin()
	for i, w := range by[:many] {
		if a.Wake&(1<<i) != 0 {
			l.To.Waiters[w].Wake = true
		}
	}
	l.Step(polls[c])
}

// process is what may happen to a client as a whole.
func (l *Line) process(c uint8) {
	from := l.From
	switch {
	case from.Dead.Has(c):
		if from.Up.Has(c) {
			l.Begin().Up.Put(c, false)
			l.Step(deathNoticed[c])
		}
		return
	case from.Paused.Has(c):
		n := l.Begin()
		n.Paused.Put(c, false)
		for w := range l.Waiters {
			if wr := &n.Waiters[w]; l.Home[w] == c && wr.Mode == Has && wr.Trust == 0 && !l.undone(w, true) {
				return
			}
		}
		l.Step(goesOn[c])
		return
	}
	if !l.busy(c) || c >= l.Harmed {
		return
	}
	if from.Pauses > 0 {
		n := l.Begin()
		n.Pauses--
		n.Paused.Put(c, true)
		l.Step(pauses[c])
	}
	if from.Crashes > 0 {
		l.crash(c, false)
		l.Step(dies[c])
		if l.Messages > 0 {
			l.crash(c, true)
			l.Step(diesAsking[c])
		}
	}
}

// busy reports whether a client does anything.
func (l *Line) busy(c uint8) bool {
	for w := range l.Waiters {
		if l.Home[w] == c && l.From.Waiters[w].Mode != Away {
			return true
		}
	}
	for _, r := range l.From.Net {
		if r.background() && l.Of(r.ID) == c {
			return true
		}
	}
	return false
}

// crash ends a process with all that it does in the background. asking: its requests may still
// arrive.
func (l *Line) crash(c uint8, asking bool) {
	n := l.Begin()
	n.Crashes--
	var rest []Request
	for i := 0; i < maxRequests && n.Net[i] != (Request{}); {
		r := n.Net[i]
		if !r.background() || l.Of(r.ID) != c {
			i++
			continue
		}
		remove(n.Net[:], i)
		n.crashes(r.ID, r.Served)
		if r.Kind == Late && asking {
			r.Kind = Acquire
			rest = append(rest, r)
		}
	}
	for w := range l.Waiters {
		wr := &n.Waiters[w]
		if l.Home[w] != c {
			continue
		}
		if wr.Mode != Away {
			n.crashes(OwnerID(w, wr.Gen), wr.Served)
			n.crashes(wr.Field, Run{})
		}
		if wr.Wake && asking {
			rest = append(rest, Request{Kind: Acquire, ID: OwnerID(w, wr.Gen), Again: wr.Stray, Place: wr.Mode == Waiting})
		}
		*wr = Waiter{Gen: gens}
	}
	for _, r := range rest {
		l.keep(r)
	}
	n.Dead.Put(c, true)
	l.forgetQueue(c)
}

// crashes notes that nobody cares for some owners any more.
func (s *State) crashes(owner uint8, served Run) {
	for _, id := range append(served[:], owner) {
		if id != 0 {
			s.Crashed |= 1 << (id - 1)
		}
	}
}
