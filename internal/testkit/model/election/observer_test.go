package election

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/lua"
)

// observes is what the observer does.
func (m *electing) observes(s state, out *steps) {
	o := &s.o
	n := s
	switch o.at {
	case absent:
		return
	case looking:
		t := m.terms(&s)
		a := s.leader(&t)
		n.o.at, n.o.token, n.o.lasts = looked, a.token, a.left
		n.wrong.If(a.status == lua.Done && (s.owner != s.saidBy || a.token != s.token), errUntrue)
		out.Quiet('O', "the server executes its look", n)
		if s.faults > 0 {
			n = s
			n.faults--
			n.o.at, n.o.timer = asleep, 0
			if m.off.Has(retries) {
				n.o.timer = model.Endless
			}
			out.Loud('O', "hears nothing of its look", n)
		}
	case looked:
		n.o.tell(m)
		n.wrong.If(o.token != 0 && o.token < o.most, errBackwards)
		out.Quiet('O', "gets the answer to its look", n)
	case asleep:
		if o.wake || o.timer == 0 {
			n.o.at, n.o.wake, n.o.timer = looking, false, 0
			out.Quiet('O', "has reason to look", n)
		}
	}
	m.links(s, out)
}

// tell is what an observer makes of the answer.
func (o *observer) tell(m *electing) {
	o.began, o.last, o.most = true, o.token, max(o.most, o.token)
	o.at, o.timer = asleep, model.Endless
	if o.token != 0 && o.lasts != 0 && !m.off.Has(looksEnd) {
		o.timer = o.lasts
	}
	o.token, o.lasts = 0, 0
}

// links are what becomes of the subscription.
func (m *electing) links(s state, out *steps) {
	o := &s.o
	n := s
	switch o.link {
	case off:
		n.o.link = on
		out.Quiet('O', "the server subscribes it", n)
	case on:
		n.o.link, n.o.anew = heard, true
		n.o.wake = o.wake || !o.anew && !m.off.Has(looksFirst) || o.anew && !m.off.Has(looksAgain)
		out.Quiet('O', "knows that it listens", n)
	case broken:
		n.o.link, n.o.wake = off, true
		out.Quiet('O', "notices that its connection is broken", n)
	}
	if o.link == heard && o.mail {
		n = s
		n.o.mail = false
		n.o.wake = o.wake || !m.off.Has(hears)
		out.Quiet('O', "gets a message", n)
	}
	if s.breaks > 0 && (o.link == on || o.link == heard) {
		n = s
		n.breaks--
		n.o.link, n.o.mail = broken, false
		out.Loud(0, "O's connection breaks", n)
	}
}
