package latch

import "github.com/holdfast-go/holdfast/internal/testkit/model"

// waits are what waiters and their gate do.
func (m *latching) waits(s state, out *steps) {
	g := &s.gate
	for i := range s.waiters {
		w := &s.waiters[i]
		if !w.waits && w.wishes > 0 {
			n := s
			n.join(m, i)
			out.Loud('W', [maxWaiters]string{"its first waiter comes", "its second waiter comes"}[i], n)
		}
		if w.waits && s.leaves > 0 {
			n := s
			n.leaves--
			n.waiters[i] = waiter{wishes: w.wishes}
			n.gate.come = n.gate.come || !n.anybody()
			out.Loud('W', [maxWaiters]string{"its first waiter leaves", "its second waiter leaves"}[i], n)
		}
	}
	switch g.at {
	case looking:
		n := s
		n.gate.at, n.gate.left, n.gate.lasts = looked, s.count, s.ttl
		out.Quiet('W', "the server executes its look", n)
		if n := s; model.Spend(&n.faults) { // and is repeated, or ends the waits with an error
			for i := range n.waiters {
				if n.waiters[i].some {
					n.waiters[i] = waiter{wishes: n.waiters[i].wishes}
				}
			}
			n.sleep(m, 0)
			out.Loud('W', "hears nothing of its look, and the waits end with an error", n)
		}
	case looked:
		n := s
		n.tell(m)
		out.Quiet('W', "gets the answer to its look", n)
	case asleep:
		if g.wake || g.come || g.timer == 0 {
			n := s
			n.look()
			out.Quiet('W', "has reason to look", n)
		}
	}
	m.links(s, out)
}

func (s *state) anybody() bool { return s.waiters[0].waits || s.waiters[1].waits }

// join adds a waiter to the gate, and opens one if there is none.
func (s *state) join(m *latching, i int) {
	w := &s.waiters[i]
	w.wishes--
	w.waits = true
	switch {
	case s.gate.at == closed:
		s.gate.wake = s.gate.link == model.Heard // the token of a confirmed channel
		s.gate.timer = m.rest
		s.look()
	case !m.off.Has(kicks):
		s.gate.come = true
	}
	if s.gate.at == looking || s.gate.at == looked {
		w.some = w.some || m.off.Has(ownLook)
	}
}

// look begins a look for those who wait now. Without anybody the gate is closed.
func (s *state) look() {
	g := &s.gate
	g.wake, g.come, g.timer = false, false, 0
	if !s.anybody() {
		g.at = closed
		return
	}
	g.at = looking
	for i := range s.waiters {
		s.waiters[i].some = s.waiters[i].waits
	}
}

// tell is what the gate makes of the answer.
func (s *state) tell(m *latching) {
	left, lasts := s.gate.left, s.gate.lasts
	if left == 0 {
		for i := range s.waiters {
			if w := &s.waiters[i]; w.some {
				s.wrong.If(!w.opened, errEarly)
				*w = waiter{wishes: w.wishes}
			}
		}
		lasts = 0
	}
	s.sleep(m, lasts)
}

// sleep ends a look. lasts: 0 if nothing is known of the latch's end.
func (s *state) sleep(m *latching, lasts uint8) {
	g := &s.gate
	g.at, g.left, g.lasts = asleep, 0, 0
	g.timer = m.rest
	if m.off.Has(looksRest) {
		g.timer = model.Endless
	}
	if lasts != 0 && lasts != model.Endless && !m.off.Has(looksEnd) {
		g.timer = min(g.timer, lasts)
	}
	for i := range s.waiters {
		s.waiters[i].some = false
	}
}

// links are what becomes of the subscription.
func (m *latching) links(s state, out *steps) {
	g := &s.gate
	n := s
	switch {
	case g.link == model.Off && g.at != closed:
		n.gate.link = model.On
		out.Quiet('W', "the server subscribes it", n)
	case g.link == model.Off:
		return
	case g.link == model.On:
		n.gate.link, n.gate.anew = model.Heard, true
		n.gate.wake = g.at != closed && (g.wake || !g.anew && !m.off.Has(looksFirst) || g.anew && !m.off.Has(looksAgain))
		out.Quiet('W', "knows that it listens", n)
	case g.link == model.Severed:
		n.gate.link = model.Off
		n.gate.wake = g.at != closed
		out.Quiet('W', "notices that its connection is broken", n)
	}
	if g.link == model.Heard && g.mail {
		n = s
		n.gate.mail = false
		n.gate.wake = g.wake || g.at != closed && !m.off.Has(hears)
		out.Quiet('W', "gets a message", n)
	}
	if g.at == closed && g.link == model.Heard {
		n = s
		n.gate.link, n.gate.anew, n.gate.mail = model.Off, false, false
		out.Quiet('W', "its subscription ends", n)
	}
	if n := s; model.Spend(&n.breaks) && g.link.Up() {
		n.gate.link, n.gate.mail = model.Severed, false
		out.Loud(0, "W's connection breaks", n)
	}
}
