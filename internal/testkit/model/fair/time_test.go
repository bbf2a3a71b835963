package fair

// time is a tick of all clocks, and what can happen to the server as a whole.
func (m *fair) time(s state, emit func(string, state)) {
	n := s
	n.tick()
	n.claimed = n.claimed && n.owner != 0
	m.netTick(&n)
	ok := m.mailTick(&n)
	for w := range m.waiters {
		ok = ok && m.waiterTick(&n, w)
	}
	if m.prompt {
		ok = ok && !m.overdue(&s)
		m.judgeDeadlines(&n)
	}
	for c := range m.clients {
		n.due.put(c, m.line(&n, c) && !n.dead.has(c))
	}
	if ok {
		emit(tickLabel, n)
	}
	if s.over() {
		n = s
		n.queue = [maxPlaces]place{}
		emit(endLabel, n)
	}
	if s.losses == 0 {
		return
	}
	n = s
	n.losses--
	n.keys = keys{}
	n.claimed = false
	emit(lostLabel, n)
	if m.harmed < m.clients {
		return // mailboxes that break have scenarios of their own
	}
	for c := range m.clients { // it was restarted
		m.unsubscribe(&n, c)
	}
	emit(restartLabel, n)
}

// overdue reports whether somebody has to do something before time may pass.
func (m *fair) overdue(s *state) bool {
	for c := range m.clients {
		if s.due.has(c) && m.line(s, c) && !m.off.has(pollAtAll) {
			return true
		}
	}
	for w := range m.waiters {
		if s.waiters[w].wake || s.waiters[w].granted != 0 {
			return true
		}
	}
	return false
}

// judgeDeadlines: who waits, and polls in time, does not lose its place.
func (m *fair) judgeDeadlines(s *state) {
	for _, p := range s.queue {
		if w, gen := waiterOf(max(p.owner, 1)); p.owner != 0 && p.left == 0 && s.waiters[w].gen == gen &&
			s.waiters[w].mode == waiting {
			s.wrong |= lostPlace
		}
	}
}

// mailTick is false if a message would be on its way for too long: one that is later than its claim
// only wakes somebody, and so does the poll. It waits for a process that stands still.
func (m *fair) mailTick(s *state) bool {
	for i := range s.mail {
		mail := &s.mail[i]
		if mail.owner != 0 && mail.left == 0 && !s.paused.has(m.of(mail.owner)) {
			return false
		}
		less(&mail.left)
	}
	return true
}

// waiterTick ends what is trusted no more. A process that stands still finds that out when it goes
// on.
func (m *fair) waiterTick(s *state, w uint8) bool {
	wr := &s.waiters[w]
	less(&wr.lasts)
	less(&wr.renewed)
	if less(&wr.stands); wr.stands == 0 {
		wr.handed = 0
		if wr.mode != has {
			wr.run = run{}
		}
	}
	if wr.mode != has || wr.trust == 0 {
		return true
	}
	wr.trust--
	if wr.trust > 0 || s.paused.has(m.home[w]) {
		return true
	}
	return m.undone(s, w, true)
}

// aged is an acquire that its client gave up a while ago: the last release of an undo comes after
// it has become that.
const aged = 1

// netTick makes what is late aged, ends the lives of other stragglers, and the pauses of undos.
func (m *fair) netTick(s *state) {
	old := s.net
	s.net = [maxMessages]message{}
	for _, r := range old {
		switch {
		case r == (message{}):
			return
		case r.kind == undoer && r.step == undoPause && !s.paused.has(m.of(r.id)):
			r.step++
		case r.kind == acquire:
			r.step = aged
		case !r.background():
			continue
		}
		_ = s.put(r)
	}
}

// forget takes out messages of grants that nobody will look at, so that they do not make more
// states.
func (m *fair) forget(s *state) {
	for i := 0; i < maxMails && s.mail[i] != (mail{}); {
		w, gen := waiterOf(s.mail[i].owner)
		wr := &s.waiters[w]
		if wr.gen != gen || wr.wishes == 0 && (wr.mode == away || wr.mode == has) {
			s.unpost(i)
		} else {
			i++
		}
	}
}
