package permits

import "github.com/holdfast-go/holdfast/lua"

// Steps of an undo: a release, a pause that is longer than a message lives, and another release.
// Without a straggler the last is enough.
const (
	undoFirst = 1
	undoPause = 2
	undoLast  = 3
)

func (m *semaphore) terms(s *state) *terms {
	m.at = terms{
		off: m.off, home: m.home, want: m.want, up: s.up, permits: m.permits, lease: m.lease, claim: m.claim,
		place: m.place, keep: endless,
	}
	return &m.at
}

// run executes a request of a waiter.
func (m *semaphore) run(s *state, r message) answer {
	before, e := s.keys, m.terms(s)
	var a answer
	switch r.kind {
	case acquire, late:
		if r.step == aged && !m.off.has(lateness) {
			return answer{status: lua.Late}
		}
		a = s.acquire(e, r.id, r.again, r.place)
		if a.status == lua.Denied && s.has(r.id) {
			s.wrong |= byItself
		}
	case release, undoer:
		a = s.release(e, r.id)
	case renewal:
		a = s.renew(e, r.id)
	}
	m.done(s, &before, r, a)
	return a
}

// done is what follows a script: judges look at it, and messages are on their way.
func (m *semaphore) done(s *state, before *keys, r message, a answer) {
	m.judge(s, before, r, &a)
	for _, to := range a.mail[:a.mails] {
		if !s.post(to) {
			m.cutMail++
		}
	}
}

// keep leaves a request to the network: it may arrive at any time from here on, or never. Where the
// bounds have no room for it, never.
func (m *semaphore) keep(s *state, r message) {
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
func (m *semaphore) line(s *state, c uint8) bool {
	for w := range m.waiters {
		if mode := s.waiters[w].mode; m.home[w] == c && (mode == waiting || mode == entering) {
			return true
		}
	}
	return false
}

// listens is the life of a client's mailbox.
func (m *semaphore) listens(s state, c uint8, emit func(string, state)) {
	if s.breaks > 0 && c < m.harmed && s.up.has(c) && !s.dead.has(c) {
		n := s
		n.breaks--
		m.unsubscribe(&n, c)
		emit(clientLabels[c][lBreaks], n)
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
		emit(clientLabels[c][lLineEnds], n)
	case s.known.has(c) && !s.up.has(c):
		n.known.put(c, false)
		n.due.put(c, true)
		for w := range m.waiters { // all of them have a reason to ask
			if wr := &n.waiters[w]; m.home[w] == c && wr.mode == waiting && !m.off.has(noticesBreak) {
				wr.wake = true
			}
		}
		emit(clientLabels[c][lNotices], n)
	case !s.known.has(c) && line:
		n.known.put(c, true)
		n.up.put(c, true)
		n.due.put(c, true)
		for w := range m.waiters {
			if wr := &n.waiters[w]; m.home[w] == c && wr.mode == entering {
				wr.mode, wr.wake = waiting, true
			}
		}
		emit(clientLabels[c][lListens], n)
	}
	for i, mail := range s.mail {
		if mail.owner != 0 && m.of(mail.owner) == c {
			n = s
			n.unpost(i)
			m.arrive(&n, c, mail)
			emit(clientLabels[c][lMail], n)
		}
	}
}

// arrive is a message in the mailbox of a client.
func (m *semaphore) arrive(s *state, c uint8, mail mail) {
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
	if mail.token != 0 && mail.left > 0 && !mail.old {
		wr.handed, wr.stands = mail.token, mail.left
	}
	wr.wake = wr.wake || wr.mode == waiting
}

// unsubscribe is what the end of a subscription is to the server. What was under way by it is lost.
func (m *semaphore) unsubscribe(s *state, c uint8) {
	s.up.put(c, false)
	for i := 0; i < maxMails && s.mail[i] != (mail{}); {
		if m.of(s.mail[i].owner) == c {
			s.unpost(i)
		} else {
			i++
		}
	}
}

// polls is a look at the queue. It is one step: a late answer to it would only wake somebody for
// nothing.
func (m *semaphore) polls(s state, c uint8, emit func(string, state)) {
	if !s.due.has(c) || m.off.has(pollAtAll) {
		return
	}
	var owners, by [maxWaiters]uint8
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
		m.done(&n, &s.keys, message{kind: polls, id: owners[0]}, a)
		if s.faults > 0 && c < m.harmed {
			unheard := n
			unheard.faults--
			emit(clientLabels[c][lPollUnheard], unheard)
		}
		for j := range i {
			if a.missing&(1<<j) != 0 || a.given&(1<<owners[j]) != 0 {
				n.waiters[by[j]].wake = true
			}
		}
	}
	emit(clientLabels[c][lPolls], n)
}

// process is what may happen to a client as a whole.
func (m *semaphore) process(s state, c uint8, emit func(string, state)) {
	n := s
	switch {
	case s.dead.has(c):
		if s.up.has(c) {
			n.up.put(c, false)
			emit(clientLabels[c][lDeathNoticed], n)
		}
		return
	case s.paused.has(c):
		n.paused.put(c, false)
		for w := range m.waiters {
			if m.home[w] == c && n.waiters[w].mode == has && n.waiters[w].trust == 0 && !m.undone(&n, w, true) {
				return
			}
		}
		emit(clientLabels[c][lGoesOn], n)
		return
	}
	if !m.busy(&s, c) || c >= m.harmed {
		return
	}
	if s.pauses > 0 {
		n = s
		n.pauses--
		n.paused.put(c, true)
		emit(clientLabels[c][lPauses], n)
	}
	if s.crashes > 0 {
		n = s
		n.crashes--
		m.crash(&n, c, false)
		emit(clientLabels[c][lDies], n)
		if m.messages > 0 {
			n = s
			n.crashes--
			m.crash(&n, c, true)
			emit(clientLabels[c][lDiesAsking], n)
		}
	}
}

// busy reports whether a client does anything.
func (m *semaphore) busy(s *state, c uint8) bool {
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

func (m *semaphore) of(owner uint8) uint8 {
	w, _ := waiterOf(owner)
	return m.home[w]
}

// crash ends a process with all that it does in the background. asking: its requests may still
// arrive.
func (m *semaphore) crash(s *state, c uint8, asking bool) {
	var rest []message
	for i := 0; i < maxMessages && s.net[i] != (message{}); {
		r := s.net[i]
		if !r.background() || m.of(r.id) != c {
			i++
			continue
		}
		s.unsend(i)
		s.crashed |= 1 << r.id
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
			s.crashed |= 1 << ownerID(w, wr.gen)
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
func (m *semaphore) network(s state, emit func(string, state)) {
	for i, r := range s.net {
		if r == (message{}) {
			return
		}
		if i > 0 && r == s.net[i-1] {
			continue // the same again
		}
		w, _ := waiterOf(r.id)
		n := s
		n.unsend(i)
		switch {
		case r.background() && s.paused.has(m.home[w]):
		case r.kind == undoer:
			if r.step == undoPause {
				continue
			}
			m.run(&n, r)
			r.step++
			if r.step > undoLast || n.put(r) {
				emit(waiterLabels[w][lUndoes], n)
			}
		case r.kind == late:
			a := m.run(&n, r)
			if a.status == excess || a.status != lua.Done && !r.again && !r.place || m.beginUndo(&n, r.id, true) {
				emit(waiterLabels[w][lLateAnswer], n)
			}
			if s.faults > 0 && m.frail(w) {
				n = s
				n.unsend(i)
				n.faults--
				m.keep(&n, message{kind: acquire, id: r.id, again: r.again, place: r.place})
				if m.beginUndo(&n, r.id, true) {
					emit(waiterLabels[w][lLateUnheard], n)
				}
			}
		default:
			emit(waiterLabels[w][lDropped], n)
			m.run(&n, r)
			emit(waiterLabels[w][lStraggler], n)
		}
	}
}

// others are those who are no waiters: who sets the number of permits, and a client of Redisson.
func (m *semaphore) others(s state, emit func(string, state)) {
	if s.sets > 0 {
		for permits := m.fewest; permits <= m.most; permits++ {
			if permits == s.total {
				continue
			}
			n := s
			n.sets--
			n.total = permits
			a := n.set(m.terms(&n), permits)
			m.done(&n, &s.keys, message{kind: sets}, a)
			emit(setLabels[permits], n)
		}
	}
	if s.of(foreigner) != nil {
		n := s
		n.foreignGives()
		m.settle(&n)
		emit(givesLabel, n)
	} else if s.takes > 0 && s.counted {
		ended := false
		for _, p := range s.out {
			if p.n > 0 && p.left == 0 {
				ended = true
				m.foreignTakes(s, p.owner, emit)
			}
		}
		if !ended && s.free > 0 {
			m.foreignTakes(s, 0, emit)
		}
	}
}

func (m *semaphore) foreignTakes(s state, ended uint8, emit func(string, state)) {
	s.takes--
	s.foreignTakes(m.terms(&s), ended)
	m.settle(&s)
	emit(takesLabel, s)
}
