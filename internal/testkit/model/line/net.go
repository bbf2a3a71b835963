package line

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/lua"
)

// execute runs a request at the server.
func (l *Line) execute(r Request) Answer {
	if r.Asks() && r.Step == model.Aged && !l.Off.Has(Lateness) {
		return Answer{Status: lua.Late}
	}
	return l.server.Execute(r)
}

// keep leaves a request to the network: it may arrive at any time from here on, or never; without room for it, never.
func (l *Line) keep(r Request) {
	late := model.Count(l.to.Net[:], func(other Request) bool { return !other.background() })
	if late >= l.Messages || !model.Put(l.to.Net[:], r) {
		l.cut++
	}
}

// beginUndo begins to give back in the background what an owner, and those served, may have.
func (l *Line) beginUndo(owner uint8, stray bool, served Run) {
	step := uint8(model.UndoLast)
	if stray && !l.Off.Has(UndoAgain) {
		step = model.UndoFirst
	}
	if !l.Off.Has(Undo) {
		l.send(Request{Kind: Undoer, ID: owner, Step: step, Served: served})
	}
}

// send begins work in the background. If the bounds have no room for it, the step is not taken.
func (l *Line) send(r Request) {
	if !model.Put(l.to.Net[:], r) {
		l.not = true
		l.cut++
	}
}

// network is what happens to requests that no caller waits for.
func (l *Line) network() {
	for i, r := range model.Different(l.from.Net[:]) {
		w, _ := WaiterOf(r.ID)
		switch {
		case r.background() && l.from.Paused.Has(l.Home[w]):
		case r.Kind == Undoer:
			l.undoes(i, w, r)
		case r.Kind == Late:
			l.lateAnswer(i, w, r)
		default:
			l.without(i)
			l.Quiet(waiter(w), "a late request is lost")
			l.without(i)
			l.execute(r)
			l.Quiet(waiter(w), "a late request arrives")
		}
	}
}

// without begins a step that takes the i-th request out of the network.
func (l *Line) without(i int) *State {
	n := l.Begin()
	model.Take(n.Net[:], i)
	return n
}

// undoes is a release by an undo.
func (l *Line) undoes(i int, w uint8, r Request) {
	if r.Step == model.UndoPause {
		return
	}
	served := r.Served
	l.without(i)
	r.Served = Run{}
	l.execute(r)
	for j := range served.Size() {
		l.execute(Request{Kind: Undoer, ID: served[j]})
	}
	if r.Step++; r.Step <= model.UndoLast {
		l.send(r)
	}
	l.Quiet(waiter(w), "an undo releases")
}

// lateAnswer is the answer to a caller who left, or that there is none.
func (l *Line) lateAnswer(i int, w uint8, r Request) {
	l.without(i)
	a := l.execute(r)
	if a.Status != Excess && (a.Status == lua.Done || r.Again || r.Place) {
		l.beginUndo(r.ID, true, Run{})
	}
	l.Quiet(waiter(w), "the answer to a caller who left")
	if !l.frail(l.Home[w]) {
		return
	}
	l.without(i).Faults--
	l.keep(Request{Kind: Acquire, ID: r.ID, Again: r.Again, Place: r.Place})
	l.beginUndo(r.ID, true, Run{})
	l.Loud(waiter(w), "no answer to a caller who left")
}

// waited reports whether some waiter of a client waits.
func (l *Line) waited(s *State, c uint8) bool {
	for _, wr := range l.of(s, c) {
		if wr.Mode == Waiting || wr.Mode == Entering {
			return true
		}
	}
	return false
}

// wake gives those of a client's waiters a reason to ask that wait, or that just enter.
func (l *Line) wake(c, mode uint8) {
	for _, wr := range l.of(l.to, c) {
		if wr.Mode == mode {
			wr.Mode, wr.Wake = Waiting, true
		}
	}
}

// listens is the life of a client's mailbox.
func (l *Line) listens(c uint8) {
	from := l.from
	if from.Breaks > 0 && c < l.Harmed && from.Up.Has(c) && !from.Dead.Has(c) {
		l.Begin().Breaks--
		l.unsubscribe(c)
		l.Loud(client(c), "its mailbox breaks")
	}
	if !l.awake(c) {
		return
	}
	switch waited := l.waited(from, c); {
	case from.Known.Has(c) && !waited:
		l.Begin()
		l.unsubscribe(c)
		l.forgetQueue(c)
		l.Quiet(client(c), "stops to listen, for nobody waits")
	case from.Known.Has(c) && !from.Up.Has(c):
		n := l.Begin()
		n.Known.Put(c, false)
		n.Due.Put(c, true)
		if !l.Off.Has(NoticesBreak) {
			l.wake(c, Waiting)
		}
		l.Quiet(client(c), "notices that its mailbox broke")
	case !from.Known.Has(c) && waited:
		n := l.Begin()
		n.Known.Put(c, true)
		n.Up.Put(c, true)
		n.Due.Put(c, true)
		l.wake(c, Entering)
		l.Quiet(client(c), "its mailbox is confirmed")
	}
	for i, m := range model.Under(from.Mail[:]) {
		if l.Of(m.Owner) == c {
			model.Take(l.Begin().Mail[:], i)
			l.arrive(c, m)
			l.Quiet(client(c), "a message arrives")
		}
	}
}

// forgetQueue is a client that listens no longer, and so does not poll.
func (l *Line) forgetQueue(c uint8) {
	l.to.Known.Put(c, false)
	l.to.Due.Put(c, false)
	l.to.Late.Put(c, false)
}

// arrive is a message in the mailbox of a client.
func (l *Line) arrive(c uint8, m Mail) {
	n := l.to
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
	l.to.Up.Put(c, false)
	model.Change(l.to.Mail[:], func(m Mail) (Mail, bool) { return m, l.Of(m.Owner) != c })
}

// polls is a look at the queue. It is one step: a late answer to it would only wake somebody for nothing.
func (l *Line) polls(c uint8) {
	if !l.from.Due.Has(c) || l.Off.Has(PollAtAll) {
		return
	}
	owners, by, many := l.owners(c, func(uint8) bool { return true })
	begin := func() (a Answer) {
		n := l.Begin()
		n.Due.Put(c, false)
		n.Late.Put(c, false)
		if many > 0 {
			a = l.server.ExecuteFor(Request{Kind: Polls, ID: owners[0]}, c, owners)
		}
		return a
	}
	if many > 0 && l.frail(c) {
		begin()
		l.to.Faults--
		l.Loud(client(c), "polls, and hears no answer")
	}
	a := begin()
	for i, w := range by[:many] {
		if a.Missing&(1<<i) != 0 || a.Given&(1<<owners[i]) != 0 {
			l.to.Waiters[w].Wake = true
		}
	}
	l.Quiet(client(c), "polls")
}

// process is what may happen to a client as a whole.
func (l *Line) process(c uint8) {
	from := l.from
	switch {
	case from.Dead.Has(c):
		if from.Up.Has(c) {
			l.Begin().Up.Put(c, false)
			l.Quiet(client(c), "the server notices that it died")
		}
		return
	case from.Paused.Has(c):
		n := l.Begin()
		n.Paused.Put(c, false)
		for w, wr := range l.of(n, c) {
			if wr.Mode == Has && wr.Trust == 0 {
				l.undone(w, true)
			}
		}
		l.Quiet(client(c), "goes on")
		return
	}
	if !l.busy(c) || c >= l.Harmed {
		return
	}
	if from.Pauses > 0 {
		n := l.Begin()
		n.Pauses--
		n.Paused.Put(c, true)
		l.Loud(client(c), "stands still")
	}
	if from.Crashes > 0 {
		l.crash(c, false)
		l.Loud(client(c), "dies")
		if l.Messages > 0 {
			l.crash(c, true)
			l.Loud(client(c), "dies while it asks")
		}
	}
}

// busy reports whether a client does anything.
func (l *Line) busy(c uint8) bool {
	for _, wr := range l.of(l.from, c) {
		if wr.Mode != Away {
			return true
		}
	}
	return slices.ContainsFunc(l.from.Net[:], func(r Request) bool { return r.background() && l.Of(r.ID) == c })
}

// crash ends a process with all that it does in the background. asking: its requests may still arrive.
func (l *Line) crash(c uint8, asking bool) {
	n := l.Begin()
	n.Crashes--
	its := func(r Request) bool { return r.background() && l.Of(r.ID) == c }
	for _, r := range model.Extract(n.Net[:], its) {
		n.crashes(r.ID, r.Served)
		if r.Kind == Late && asking {
			r.Kind = Acquire
			l.keep(r)
		}
	}
	for w, wr := range l.of(n, c) {
		if wr.Mode != Away {
			n.crashes(OwnerID(w, wr.Gen), wr.Served)
			n.crashes(wr.Field, Run{})
		}
		if wr.Wake && asking {
			l.keep(wr.asks(Acquire, w))
		}
		*wr = Waiter{Gen: gens}
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
