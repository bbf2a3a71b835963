package rw

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/lua"
)

// What must never be.
var (
	must        model.Promises
	errToken    = must.Never("a write's token that is not greater than all before it")
	errRead     = must.Never("a read's token that is not the last write's")
	errAnothers = must.Never("a command changed what another owner has")
	errBack     = must.Never("a hold that had ended was brought back")
	errItself   = must.Never("a client was refused because of its own earlier attempt")
	errEarly    = must.Never("the lock was granted while it was to stay taken")
	errLonger   = must.Never("a lock that its holder has left stays taken for longer than it was to")
	errPassed   = must.Never("a reader who came later passed a writer that waits")
	errTurns    = must.Never("a reader was to wait for a second writer")
	errShut     = must.Never("a reader was refused though nobody writes or waits to write")
	errOutlived = must.Never("a writer was refused though nobody writes and no reader's lease lasts")
	errUntold   = must.Never("a command let in somebody who listens and was not told")
	errEndless  = must.Never("a key has no end")
	errAlone    = must.Never("a client trusts that it writes, and another that it writes or reads")
	errCut      = must.Never("a client trusts a hold that the server does not know")
	errCount    = must.Never("the server's hold count is not the holder's")
	errAsleep   = must.Never("a client sleeps for longer than a place counts, and would be granted the lock")
	errLeft     = must.Never("the lock is held for nobody, and nothing is on its way that would free it")
	errPlace    = must.Never("a place is kept for nobody, and nothing is on its way that would withdraw it")
)

// judgeRead judges the answer to an attempt to read. An attempt that is late may not have the ticket
// of its client.
func (m *rwlock) judgeRead(s *state, before *server, r message, a answer) {
	cl := &s.clients[clientOf(r.id)]
	asker := cl.id == r.id && cl.ticket == r.count
	if a.status != lua.Done {
		byWriter := before.mode == writing && !before.writes(r.id) && before.writer != 0 && !before.over()
		again := asker && cl.asked && cl.let
		s.wrong.If(!byWriter && again, errTurns)
		s.wrong.If(!byWriter && !again && before.waiting() == 0, errShut)
		return
	}
	s.wrong.If(s.wrote != 0 && a.token != s.wrote, errRead)
	s.top = max(s.top, a.token)
	m.granted(s, before)
	if before.reads(r.id) || before.writes(r.id) || r.beside != 0 && before.writes(r.beside) || asker && cl.let ||
		!asker && r.count > 0 {
		return
	}
	for c := range m.clients {
		s.wrong.If(s.clients[c].waited > 0 && c != clientOf(r.id), errPassed)
	}
}

// judgeWrite judges the answer to an attempt to write.
func (m *rwlock) judgeWrite(s *state, before *server, r message, a answer) {
	cl := &s.clients[clientOf(r.id)]
	if a.status != lua.Done {
		s.wrong.If((before.mode == reading || before.over()) && before.rest() == 0, errOutlived)
		if cl.id == r.id && cl.side == write && cl.granted == 0 {
			cl.waited = m.place
		}
		return
	}
	cl.waited = 0
	if before.writes(r.id) && a.token == s.wrote {
		return // once more
	}
	s.wrong.If(a.token <= s.top, errToken)
	s.top, s.wrote = a.token, a.token
	m.granted(s, before)
	for c := range m.clients {
		if other := &s.clients[c]; other.id != 0 && other.side == read && other.asked {
			other.let = true
		}
	}
}

func (m *rwlock) granted(s *state, before *server) {
	s.wrong.If(s.stays > 0, errEarly)
	if s.clock != 0 && before.token != s.token {
		s.clock++ // no two grants are of one microsecond
	}
}

// judge compares what all owners but some have before and after a command.
func (m *rwlock) judge(s *state, before *server, kind uint8, but uint16) {
	ask := kind == askWrite || kind == askRead || kind == lateWrite || kind == lateRead
	for id := range uint8(ids) {
		old, now := before.readers[id], s.readers[id]
		stood, stands := old.count > 0 && before.ttl > 0, now.count > 0
		s.wrong.If(!ask && stands && !stood, errBack)
		s.wrong.If(but&(1<<id) == 0 && stood && old.lease > 0 && old != now, errAnothers)
	}
	wrote := before.writer != 0 && !before.over() && (but&(1<<(before.writer-1))) == 0
	s.wrong.If(wrote && (s.writer != before.writer || s.left != before.left), errAnothers)
	s.wrong.If(!ask && s.writer != 0 && before.writer == 0, errBack)
	s.wrong.If(s.stays > 0 && s.ttl > before.ttl && kind != renewRead, errLonger) // who wrote may go on reading
}

// wouldBe reports whether a client that waits would be granted the lock if it asked.
func (m *rwlock) wouldBe(k server, cl *client) bool {
	if cl.side == read {
		return k.read(0, cl.id, 1, cl.ticket, cl.held[write].id).status == lua.Done
	}
	return k.write(0, cl.id, 1, 0, cl.stray).status == lua.Done
}

// asleep reports whether a client waits for a message, and none is on its way.
func (cl *client) asleep() bool {
	return cl.id != 0 && cl.asked && cl.granted == 0 && !cl.wake && cl.sub == heard
}

// judgeTold: whom a command lets in, who listens, is told.
func (m *rwlock) judgeTold(s *state, before *server) {
	for c := range m.clients {
		cl := &s.clients[c]
		s.wrong.If(cl.asleep() && m.wouldBe(s.server, cl) && !m.wouldBe(*before, cl), errUntold)
	}
}

// check is what is wrong with a state. Where keys are lost there is a promise about the tokens of writes
// alone.
func (m *rwlock) check(s *state) error {
	broken := s.wrong
	if m.losses > 0 {
		return must.First(broken.Only(errToken), m.only)
	}
	m.checkKeys(s, &broken)
	if !s.forced {
		m.checkHolds(s, &broken)
	}
	if !m.still {
		m.checkSleep(s, &broken)
	}
	if m.brief {
		m.checkLeft(s, &broken)
	}
	return must.First(broken, m.only)
}

func (m *rwlock) checkKeys(s *state, broken *model.Broken) {
	broken.If(s.fields() != (s.mode != nobody) || s.mode != nobody && (s.ttl == 0 || s.ttl > m.longest()) ||
		s.places != [ids]uint8{} && (s.keptFor == 0 || s.keptFor > m.place), errEndless)
	broken.If(s.left && s.readers == [ids]reader{} && s.ttl > s.stay, errLonger)
	for _, r := range s.readers {
		broken.If(r.lease > m.longest() || s.ttl < r.lease && r.count > 0 && m.only == nil, errEndless)
	}
}

// longest is the longest lease there is.
func (m *rwlock) longest() uint8 {
	return max(m.long, m.leases[0], m.leases[1], m.leases[2])
}

func (m *rwlock) checkHolds(s *state, broken *model.Broken) {
	for c := range m.clients {
		w, r := &s.clients[c].held[write], &s.clients[c].held[read]
		clean := func(id, side uint8) bool { return s.dirty&(1<<(id-1+side*ids)) == 0 }
		if w.id != 0 {
			broken.If(!s.writes(w.id), errCut)
			broken.If(clean(w.id, write) && s.count != w.holds, errCount)
			for d := range m.clients {
				broken.If(d != c && s.clients[d].held != [sides]hold{}, errAlone)
			}
		}
		if r.id != 0 {
			broken.If(!s.reads(r.id) || s.readers[r.id-1].lease == 0, errCut)
			broken.If(clean(r.id, read) && s.readers[r.id-1].count != r.holds, errCount)
		}
	}
}

// checkSleep: nobody sleeps for long who would be granted the lock. Who was told of a place looks
// when that has ended.
func (m *rwlock) checkSleep(s *state, broken *model.Broken) {
	for c := range m.clients {
		cl := &s.clients[c]
		broken.If(cl.asleep() && (cl.look > m.place || cl.look == 0) && m.wouldBe(s.server, cl), errAsleep)
	}
}

// checkLeft is for a network whose requests arrive however late; only what can do no harm here but
// take room is lost when it is late.
func (m *rwlock) checkLeft(s *state, broken *model.Broken) {
	for id := uint8(1); id <= ids; id++ {
		cl, its := &s.clients[clientOf(id)], func(r message) bool { return r.id == id }
		if s.crashed&(1<<(id-1)) != 0 || cl.id == id || model.Count(s.net[:], its) > 0 {
			continue // it is dead, or something of it is expected
		}
		broken.If(s.reads(id) && s.ttl > 0 && cl.held[read].id != id || s.writes(id) && cl.held[write].id != id, errLeft)
		broken.If(s.places[id-1] > 1 && cl.held[write].id != id, errPlace)
	}
}

// free is the goal: nobody has the lock, and nobody does anything.
func (m *rwlock) free(s *state) bool {
	if s.mode != nobody || s.net[0] != (message{}) || s.places != [ids]uint8{} {
		return false
	}
	for c := range m.clients {
		if s.clients[c].id != 0 || s.clients[c].held != [sides]hold{} {
			return false
		}
	}
	return true
}
