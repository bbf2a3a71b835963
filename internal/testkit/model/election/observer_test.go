package election

import "github.com/holdfast-go/holdfast/lua"

// observes is what the observer does.
func (m *electing) observes(s state, emit func(string, state)) {
	o := &s.o
	n := s
	switch o.at {
	case absent:
		return
	case looking:
		t := m.terms(&s)
		a := s.leader(&t)
		n.o.at, n.o.token, n.o.lasts = looked, a.token, a.left
		if a.status == lua.Done && (s.owner != s.saidBy || a.token != s.token) {
			n.wrong |= untrue
		}
		emit(lLooks, n)
		if s.faults > 0 {
			n = s
			n.faults--
			n.o.at, n.o.timer = asleep, 0
			if m.off.has(retries) {
				n.o.timer = endless
			}
			emit(lUnheard, n)
		}
	case looked:
		n.o.tell(m)
		if o.token != 0 && o.token < o.most {
			n.wrong |= backwards
		}
		emit(lSees, n)
	case asleep:
		if o.wake || o.timer == 0 {
			n.o.at, n.o.wake, n.o.timer = looking, false, 0
			emit(lWakes, n)
		}
	}
	m.links(s, emit)
}

// tell is what an observer makes of the answer.
func (o *observer) tell(m *electing) {
	o.began, o.last, o.most = true, o.token, max(o.most, o.token)
	o.at, o.timer = asleep, endless
	if o.token != 0 && o.lasts != 0 && !m.off.has(looksEnd) {
		o.timer = o.lasts
	}
	o.token, o.lasts = 0, 0
}

// links are what becomes of the subscription.
func (m *electing) links(s state, emit func(string, state)) {
	o := &s.o
	n := s
	switch o.link {
	case off:
		n.o.link = on
		emit(lListens, n)
	case on:
		n.o.link, n.o.anew = heard, true
		n.o.wake = o.wake || !o.anew && !m.off.has(looksFirst) || o.anew && !m.off.has(looksAgain)
		emit(lConfirmed, n)
	case broken:
		n.o.link, n.o.wake = off, true
		emit(lNotices, n)
	}
	if o.link == heard && o.mail {
		n = s
		n.o.mail = false
		n.o.wake = o.wake || !m.off.has(hears)
		emit(lTold, n)
	}
	if s.breaks > 0 && (o.link == on || o.link == heard) {
		n = s
		n.breaks--
		n.o.link, n.o.mail = broken, false
		emit(lBreaks, n)
	}
}
