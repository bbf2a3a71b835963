package permits

// time is a tick of all clocks, and what can happen to the server as a whole.
func (m *semaphore) time(s state, emit func(string, state)) {
	n := s
	n.tick()
	m.netTick(&n)
	ok := m.mailTick(&n)
	for w := range m.waiters {
		ok = ok && m.waiterTick(&n, w)
	}
	if m.prompt {
		if ok = ok && !m.overdue(&s); m.pauses == 0 {
			m.judgeDeadlines(&n)
		}
	}
	for c := range m.clients {
		n.due.put(c, m.line(&n, c) && !n.dead.has(c))
	}
	m.settle(&n)
	if ok {
		emit(tickLabel, n)
	}
	if s.over() {
		n = s
		n.endQueue()
		emit(endLabel, n)
	}
	if s.losses == 0 {
		return
	}
	n = s
	n.losses--
	n.keys = keys{}
	n.total, n.allowed = m.permits, m.permits
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
func (m *semaphore) overdue(s *state) bool {
	for c := range m.clients {
		if s.paused.has(c) || s.dead.has(c) {
			continue
		}
		if s.due.has(c) && m.line(s, c) && !m.off.has(pollAtAll) || s.known.has(c) && !s.up.has(c) ||
			!s.known.has(c) && m.line(s, c) {
			return true
		}
	}
	for w := range m.waiters {
		if (s.waiters[w].wake || s.waiters[w].granted != 0) && !s.paused.has(m.home[w]) {
			return true
		}
	}
	return false
}

// judgeDeadlines: who waits, and polls in time, loses neither its place nor what it was handed.
func (m *semaphore) judgeDeadlines(s *state) {
	waits := func(owner uint8) bool {
		if owner == 0 || owner == foreigner {
			return false
		}
		w, gen := waiterOf(owner)
		return s.waiters[w].gen == gen && s.waiters[w].mode == waiting && !s.paused.has(m.home[w])
	}
	for _, p := range s.queue {
		if p.left == 0 && waits(p.owner) {
			s.wrong |= lostPlace
		}
	}
	for _, p := range s.out {
		if p.n > 0 && p.left == 0 && p.handed && waits(p.owner) {
			s.wrong |= wasted
		}
	}
}

// mailTick is false if a message would be on its way for too long: one that is later than its claim
// only wakes somebody, and so does the poll. It waits for a process that stands still.
func (m *semaphore) mailTick(s *state) bool {
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
func (m *semaphore) waiterTick(s *state, w uint8) bool {
	wr := &s.waiters[w]
	less(&wr.lasts)
	less(&wr.renewed)
	if less(&wr.stands); wr.stands == 0 {
		wr.handed = 0
	}
	if wr.mode != has || wr.trust == 0 || m.off.has(trustEnds) {
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
func (m *semaphore) netTick(s *state) {
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

// forget takes out what nobody will look at, so that it does not make more states: messages of grants
// to those who have left, and marks of what was handed to them.
func (m *semaphore) forget(s *state) {
	for i := 0; i < maxMails && s.mail[i] != (mail{}); {
		w, gen := waiterOf(s.mail[i].owner)
		wr := &s.waiters[w]
		reused := m.off.has(freshOwner) && wr.wishes > 0
		if wr.gen != gen || !reused && (wr.mode == away || wr.mode == has) {
			s.unpost(i)
		} else {
			i++
		}
	}
	for i := range s.out {
		if p := &s.out[i]; p.owner != 0 && p.n == 0 && !m.cared(s, p.owner) {
			p.handed = false
		}
	}
	s.tidy()
}
