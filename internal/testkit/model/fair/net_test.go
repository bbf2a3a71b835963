package fair

import "github.com/holdfast-go/holdfast/lua"

// Steps of an undo: a release, a pause that is longer than a message lives, and another release.
// Without a straggler the last is enough.
const (
	undoFirst = 1
	undoPause = 2
	undoLast  = 3
)

func (m *fair) terms(s *state) *terms {
	m.at = terms{off: m.off, home: m.home, up: s.up, lease: m.lease, claim: m.claim, place: m.place, keep: endless}
	return &m.at
}

// run executes a request.
func (m *fair) run(s *state, r message) answer {
	before, e := s.keys, m.terms(s)
	var a answer
	switch r.kind {
	case acquire, late:
		if r.step == aged && !m.off.has(lateness) {
			return answer{status: lua.Late}
		}
		a = s.acquire(e, r.id, r.again, r.place)
		if a.status == lua.Denied && s.owner == r.id && r.place {
			s.wrong |= byItself
		}
	case release, undoer:
		a = s.release(e, r.id, r.served)
	case renewal:
		a = s.renew(e, r.id)
	}
	m.judge(s, &before, r, nobody)
	m.mailed(s, a.mail)
	return a
}

// mailed puts a message of a grant on its way.
func (m *fair) mailed(s *state, mail mail) {
	if mail.owner != 0 && !s.post(mail) {
		m.cutMail++
	}
}

// keep leaves a request to the network: it may arrive at any time from here on, or never. Where the
// bounds have no room for it, never.
func (m *fair) keep(s *state, r message) {
	n := 0
	for _, other := range s.net {
		if other != (message{}) && !other.background() {
			n++
		}
	}
	if n >= m.messages || !s.put(r) {
		m.cut++
	}
}

// line reports whether somebody of a client waits.
func (m *fair) line(s *state, c uint8) bool {
	for w := range m.waiters {
		if mode := s.waiters[w].mode; m.home[w] == c && (mode == waiting || mode == entering) {
			return true
		}
	}
	return false
}

// wakeAll gives all waiters of a client a reason to ask.
func (m *fair) wakeAll(s *state, c uint8) {
	for w := range m.waiters {
		if m.home[w] == c && s.waiters[w].mode == waiting {
			s.waiters[w].wake = true
		}
	}
}

// listens is the life of a client's mailbox.
func (m *fair) listens(s state, c uint8, emit func(string, state)) {
	if s.breaks > 0 && c < m.harmed && s.up.has(c) && !s.dead.has(c) {
		n := s
		n.breaks--
		m.unsubscribe(&n, c)
		emit(clientLabels[c][fBreaks], n)
	}
	if s.paused.has(c) || s.dead.has(c) {
		return
	}
	n := s
	switch line := m.line(&s, c); {
	case s.known.has(c) && !line:
		m.unsubscribe(&n, c)
		n.known.put(c, false)
		n.due.put(c, false)
		n.late.put(c, false)
		emit(clientLabels[c][fLineEnds], n)
	case s.known.has(c) && !s.up.has(c):
		n.known.put(c, false)
		n.due.put(c, true)
		if !m.off.has(noticesBreak) {
			m.wakeAll(&n, c)
		}
		emit(clientLabels[c][fNotices], n)
	case !s.known.has(c) && line:
		n.known.put(c, true)
		n.up.put(c, true)
		n.due.put(c, true)
		for w := range m.waiters {
			if wr := &n.waiters[w]; m.home[w] == c && wr.mode == entering {
				wr.mode, wr.wake = waiting, true
			}
		}
		emit(clientLabels[c][fListens], n)
	}
	for i, mail := range s.mail {
		if mail.owner != 0 && m.of(mail.owner) == c {
			n = s
			n.unpost(i)
			m.arrive(&n, c, mail)
			emit(clientLabels[c][fMail], n)
		}
	}
}

// arrive is a message in the mailbox of a client.
func (m *fair) arrive(s *state, c uint8, mail mail) {
	if !s.late.has(c) || m.off.has(pollInTime) { // the queue moves without us, but places have to be put off
		s.due.put(c, false)
		s.late.put(c, m.prompt)
	}
	w, gen := waiterOf(mail.owner)
	wr := &s.waiters[w]
	if wr.gen != gen || wr.mode != waiting && wr.mode != entering {
		return
	}
	if m.off.has(grantTime) {
		mail.left = m.claim - 1
	}
	if mail.left > 0 && !mail.old {
		wr.handed, wr.stands, wr.run = mail.token, mail.left, mail.run
	}
	wr.wake = wr.wake || wr.mode == waiting
}

// unsubscribe is what the end of a subscription is to the server. What was under way by it is lost.
func (m *fair) unsubscribe(s *state, c uint8) {
	s.up.put(c, false)
	for i := 0; i < maxMails && s.mail[i] != (mail{}); {
		if w, _ := waiterOf(s.mail[i].owner); m.home[w] == c {
			s.unpost(i)
		} else {
			i++
		}
	}
}

// polls is a look at the queue. It is one step: a late answer to it would only wake somebody for
// nothing.
func (m *fair) polls(s state, c uint8, emit func(string, state)) {
	if !s.due.has(c) || m.off.has(pollAtAll) || s.paused.has(c) || s.dead.has(c) {
		return
	}
	var owners [maxWaiters]uint8
	var by [maxWaiters]uint8
	i := 0
	for w := range m.waiters {
		if m.home[w] == c && s.waiters[w].mode == waiting {
			owners[i], by[i] = ownerID(w, s.waiters[w].gen), w
			i++
		}
	}
	n := s
	n.due.put(c, false)
	n.late.put(c, false)
	if i > 0 {
		a := n.poll(m.terms(&n), c, owners)
		m.judge(&n, &s.keys, message{}, c)
		m.mailed(&n, a.mail)
		if s.faults > 0 && c < m.harmed {
			unheard := n
			unheard.faults--
			emit(clientLabels[c][fPollUnheard], unheard)
		}
		for j := range i {
			if a.missing&(1<<j) != 0 || a.holder == owners[j] {
				n.waiters[by[j]].wake = true
			}
		}
	}
	emit(clientLabels[c][fPolls], n)
}

// process is what may happen to a client as a whole.
func (m *fair) process(s state, c uint8, emit func(string, state)) {
	n := s
	switch {
	case s.dead.has(c):
		if s.up.has(c) {
			n.up.put(c, false)
			emit(clientLabels[c][fDeathNoticed], n)
		}
		return
	case s.paused.has(c):
		n.paused.put(c, false)
		for w := range m.waiters {
			if m.home[w] == c && n.waiters[w].mode == has && n.waiters[w].trust == 0 && !m.undone(&n, w, true) {
				return
			}
		}
		emit(clientLabels[c][fGoesOn], n)
		return
	}
	if !m.busy(&s, c) || c >= m.harmed {
		return
	}
	if s.pauses > 0 {
		n = s
		n.pauses--
		n.paused.put(c, true)
		emit(clientLabels[c][fPauses], n)
	}
	if s.crashes > 0 {
		n = s
		n.crashes--
		m.crash(&n, c, false)
		emit(clientLabels[c][fDies], n)
		if m.messages > 0 {
			n = s
			n.crashes--
			m.crash(&n, c, true)
			emit(clientLabels[c][fDiesAsking], n)
		}
	}
}

// busy reports whether a client does anything.
func (m *fair) busy(s *state, c uint8) bool {
	for w := range m.waiters {
		if m.home[w] == c && s.waiters[w].mode != away {
			return true
		}
	}
	for _, r := range s.net {
		if r.background() && m.of(r.id) == c {
			return true
		}
	}
	return false
}

func (m *fair) of(owner uint8) uint8 {
	w, _ := waiterOf(owner)
	return m.home[w]
}

// crash ends a process with all that it does in the background. asking: its requests may still
// arrive.
func (m *fair) crash(s *state, c uint8, asking bool) {
	var rest []message
	for i := 0; i < maxMessages && s.net[i] != (message{}); {
		r := s.net[i]
		if !r.background() || m.of(r.id) != c {
			i++
			continue
		}
		s.take(i)
		s.crashed |= 1 << r.id
		for _, had := range r.served {
			s.crashed |= 1 << had
		}
		if r.kind == late && asking {
			r.kind = acquire
			rest = append(rest, r)
		}
	}
	for w := range m.waiters {
		wr := &s.waiters[w]
		if m.home[w] != c {
			continue
		}
		if wr.mode != away {
			s.crashed |= 1<<ownerID(w, wr.gen) | 1<<wr.field
			for _, had := range wr.served {
				s.crashed |= 1 << had
			}
		}
		if wr.wake && asking {
			rest = append(rest, message{kind: acquire, id: ownerID(w, wr.gen), again: wr.stray,
				place: wr.mode == waiting})
		}
		*wr = waiter{gen: gens}
	}
	for _, r := range rest {
		m.keep(s, r)
	}
	s.dead.put(c, true)
	s.known.put(c, false)
	s.due.put(c, false)
	s.late.put(c, false)
}

// network is what happens to requests that no caller waits for.
func (m *fair) network(s state, emit func(string, state)) {
	for i, r := range s.net {
		if r == (message{}) {
			return
		}
		if i > 0 && r == s.net[i-1] {
			continue // the same again
		}
		w, _ := waiterOf(r.id)
		n := s
		n.take(i)
		switch {
		case r.background() && s.paused.has(m.home[w]):
		case r.kind == undoer:
			if r.step == undoPause {
				continue
			}
			served := r.served
			r.served = run{}
			m.run(&n, r)
			for i := range served.size() {
				m.run(&n, message{kind: undoer, id: served[i]})
			}
			r.step++
			if r.step > undoLast || n.put(r) {
				emit(waiterLabels[w][fUndoes], n)
			}
		case r.kind == late:
			if a := m.run(&n, r); a.status != lua.Done && !r.again && !r.place || m.beginUndo(&n, r.id, true, run{}) {
				emit(waiterLabels[w][fLateAnswer], n)
			}
			if s.faults > 0 && m.frail(w) {
				n = s
				n.take(i)
				n.faults--
				m.keep(&n, message{kind: acquire, id: r.id, again: r.again, place: r.place})
				if m.beginUndo(&n, r.id, true, run{}) {
					emit(waiterLabels[w][fLateUnheard], n)
				}
			}
		default:
			emit(waiterLabels[w][fDropped], n)
			m.run(&n, r)
			emit(waiterLabels[w][fStraggler], n)
		}
	}
}
