package keep

func (m *keeping) next(s state, emit func(string, state)) {
	m.keeper(s, emit)
	m.renewal(s, emit)
	m.answers(s, emit)
	m.hearing(s, emit)
	m.waiter(s, emit)
	m.network(s, emit)
	m.time(s, emit)
}

// renewal is the watchdog's, whose answer comes at once. What is wrong with others the other models
// say.
func (m *keeping) renewal(s state, emit func(string, state)) {
	a := &s.a
	if a.mode != holding && a.mode != kept && a.mode != passing || a.trust == 0 {
		return
	}
	n := s
	if s.owner != a.id() {
		if a.mode != passing { // else it is not believed
			n.finish(m, false)
			emit(lGone, n)
		}
		return
	}
	n.ttl, n.a.trust = m.lease, m.lease-1
	if n != s {
		emit(lRenews, n)
	}
}

// waiter is what B does.
func (m *keeping) waiter(s state, emit func(string, state)) {
	b := &s.b
	n := s
	ask := func(mode uint8) {
		n.b.mode, n.b.at = mode, none
	}
	switch b.mode {
	case away:
		if b.wishes > 0 {
			n.b.wishes--
			ask(asks1)
			emit(lBWants, n)
		}
		if b.tries > 0 {
			n = s
			n.b.tries--
			n.b.once = true
			ask(asks1)
			emit(lBTries, n)
		}
	case asks1, asks2:
		m.bAsks(s, emit)
	case subscribes:
		if !b.listens {
			n.b.listens = true
			emit(lBListens, n)
			return
		}
		if ask(asks2); m.off.has(listensThen) {
			n.b.mode = sleeps
		}
		emit(lBConfirmed, n)
	case sleeps:
		if b.told {
			n.b.told = false
			ask(asks2)
			emit(lBWoken, n)
		}
	case has:
		n.b.mode = returns
		emit(lBUnlocks, n)
	case returns:
		n.release(theirs)
		n.b = waiter{wishes: b.wishes, tries: b.tries}
		emit(lBServer, n)
	}
}

// bAsks is B's attempt at the server, and the answer.
func (m *keeping) bAsks(s state, emit func(string, state)) {
	b := &s.b
	if b.at == none {
		r := s.acquire(theirs, noEnd, false, 1)
		if b.at = done; r.status <= 0 {
			b.at = denied
		}
		if r.called {
			s.call()
		}
		if b.at == done {
			s.gets(r.lo)
		}
		emit(lBServer, s)
		return
	}
	switch at := b.at; {
	case at == done:
		b.mode, b.listens, b.told = has, false, false
	case b.once:
		*b = waiter{wishes: b.wishes, tries: b.tries}
	case b.mode == asks1:
		b.mode = subscribes
	default:
		b.mode = sleeps
	}
	b.at = none
	emit(lBAnswer, s)
}

const noEnd = 255

// network is what goes wrong.
func (m *keeping) network(s state, emit func(string, state)) {
	a := &s.a
	if s.undo != 0 {
		n := s
		n.undo = 0
		m.run(&n, request{release, s.undo}, false)
		for i := 1; i >= 0; i-- { // it is repeated for as long as any of these may arrive
			if n.net[i].id == s.undo {
				n.take(i)
			}
		}
		emit(lUndoes, n)
	}
	for i, r := range s.net {
		if r == (request{}) {
			continue
		}
		n := s
		n.take(i)
		emit(lDropped, n)
		m.run(&n, r, r.kind == acquire)
		emit(lStraggler, n)
	}
	if s.faults > 0 && a.at != none {
		n := s
		n.faults--
		if room := a.at != sent || n.put(a.op); room {
			n.a.at, n.a.age, n.a.again, n.a.lo, n.a.hi = sent, 0, true, 0, 0
			emit(lResends, n)
		} else {
			m.cut++
		}
	}
	if s.forces > 0 && s.owner != 0 && s.owner != theirs {
		n := s
		n.forces--
		n.owner, n.ttl, n.forced = 0, 0, true
		n.announce()
		n.call()
		emit(lForced, n)
	}
}

// time is a tick.
func (m *keeping) time(s state, emit func(string, state)) {
	a := &s.a
	stands := s.owner == a.id() && a.mode != idle
	if s.ttl != 0 && s.ttl != noEnd {
		if s.ttl--; s.ttl == 0 {
			s.owner = 0
			s.b.told = s.b.mode >= asks1 && s.b.mode <= sleeps // nobody announces that: who waits asks then
		}
	}
	if a.at != none && a.age < m.lease-1 {
		a.age++
	}
	if a.trust > 0 {
		if a.trust--; a.trust == 0 && (a.mode == holding || a.mode == passing) {
			s.finish(m, true)
		}
	}
	if stands {
		emit(lTime, s)
		return
	}
	emit(lTimeAfter, s)
}
