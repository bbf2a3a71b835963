package rw

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/lua"
)

// wrong is a set of things that a step did and must not.
type wrong uint16

const (
	oldToken    wrong = 1 << iota // the token of a write is not greater than all before
	otherToken                    // that of a read is not the last write's
	anothers                      // a command changed what another owner has
	broughtBack                   // what had ended stood there again, and nobody asked for it
	byItself                      // a client was refused because it holds the lock itself, and does not know
	early                         // the lock was granted while it was to stay taken
	passed                        // a reader who came later passed a writer that waits
	turns                         // a reader waited for a second writer
	shut                          // a reader was refused though nobody writes or waits to write
	outlived                      // a writer was refused though nobody writes and no reader's lease lasts
	untold                        // a command let somebody in who listens and was not told
	longer                        // a lock that its holder has left stays taken for longer than it was to
)

// What must never be.
var (
	errAlone    = errors.New("a client trusts that it writes, and another that it writes or reads")
	errCut      = errors.New("a client trusts a hold that the server does not know")
	errCount    = errors.New("the server's hold count is not the holder's")
	errEndless  = errors.New("a key has no end")
	errToken    = errors.New("a write's token that is not greater than all before it")
	errRead     = errors.New("a read's token that is not the last write's")
	errAnothers = errors.New("a command changed what another owner has")
	errBack     = errors.New("a hold that had ended was brought back")
	errItself   = errors.New("a client was refused because of its own earlier attempt")
	errEarly    = errors.New("the lock was granted while it was to stay taken")
	errPassed   = errors.New("a reader who came later passed a writer that waits")
	errTurns    = errors.New("a reader was to wait for a second writer")
	errShut     = errors.New("a reader was refused though nobody writes or waits to write")
	errOutlived = errors.New("a writer was refused though nobody writes and no reader's lease lasts")
	errUntold   = errors.New("a command let in somebody who listens and was not told")
	errLonger   = errors.New("a lock that its holder has left stays taken for longer than it was to")
	errAsleep   = errors.New("a client sleeps for longer than a place counts, and would be granted the lock")
	errLeft     = errors.New("the lock is held for nobody, and nothing is on its way that would free it")
	errPlace    = errors.New("a place is kept for nobody, and nothing is on its way that would withdraw it")
)

// judgeRead judges the answer to an attempt to read. An attempt that is late may not have the ticket
// of its client.
func (m *rwlock) judgeRead(s *state, before *server, r message, a answer) {
	cl := &s.clients[clientOf(r.id)]
	asker := cl.id == r.id && cl.ticket == r.count
	if a.status != lua.Done {
		byWriter := before.mode == writing && !before.writes(r.id) && before.writer != 0 && !before.over()
		switch {
		case byWriter:
		case asker && cl.asked && cl.let:
			s.wrong |= turns
		case before.waiting() == 0:
			s.wrong |= shut
		}
		return
	}
	if s.wrote != 0 && a.token != s.wrote {
		s.wrong |= otherToken
	}
	s.top = max(s.top, a.token)
	m.granted(s, before)
	if before.reads(r.id) || before.writes(r.id) || r.beside != 0 && before.writes(r.beside) || asker && cl.let || !asker && r.count > 0 {
		return
	}
	for c := range m.clients {
		if s.clients[c].waited > 0 && c != clientOf(r.id) {
			s.wrong |= passed
		}
	}
}

// judgeWrite judges the answer to an attempt to write.
func (m *rwlock) judgeWrite(s *state, before *server, r message, a answer) {
	cl := &s.clients[clientOf(r.id)]
	if a.status != lua.Done {
		if (before.mode == reading || before.over()) && before.rest() == 0 {
			s.wrong |= outlived
		}
		if cl.id == r.id && cl.side == write && cl.granted == 0 {
			cl.waited = m.place
		}
		return
	}
	cl.waited = 0
	if before.writes(r.id) && a.token == s.wrote {
		return // once more
	}
	if a.token <= s.top {
		s.wrong |= oldToken
	}
	s.top, s.wrote = a.token, a.token
	m.granted(s, before)
	for c := range m.clients {
		if other := &s.clients[c]; other.id != 0 && other.side == read && other.asked {
			other.let = true
		}
	}
}

func (m *rwlock) granted(s *state, before *server) {
	if s.stays > 0 {
		s.wrong |= early
	}
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
		switch {
		case !ask && stands && !stood:
			s.wrong |= broughtBack
		case but&(1<<id) == 0 && stood && old.lease > 0 && old != now:
			s.wrong |= anothers
		}
	}
	wrote := before.writer != 0 && !before.over() && (but&(1<<(before.writer-1))) == 0
	if wrote && (s.writer != before.writer || s.left != before.left) {
		s.wrong |= anothers
	}
	if !ask && s.writer != 0 && before.writer == 0 {
		s.wrong |= broughtBack
	}
	if s.stays > 0 && s.ttl > before.ttl && kind != renewRead { // who wrote may go on reading
		s.wrong |= longer
	}
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
		if cl := &s.clients[c]; cl.asleep() && m.wouldBe(s.server, cl) && !m.wouldBe(*before, cl) {
			s.wrong |= untold
		}
	}
}

// check is what is wrong with a state. A control that looks for one thing only is not stopped by
// another.
func (m *rwlock) check(s state) error {
	for _, c := range []func(*state) error{m.checkSteps, m.checkAlone, m.checkHolds, m.checkSleep, m.checkLeft} {
		if err := c(&s); err != nil && (m.only == nil || errors.Is(err, m.only)) {
			return err
		}
	}
	return nil
}

func (m *rwlock) checkSteps(s *state) error {
	for _, c := range []struct {
		bit wrong
		err error
	}{
		{oldToken, errToken}, {otherToken, errRead}, {anothers, errAnothers}, {broughtBack, errBack}, {byItself, errItself},
		{early, errEarly}, {longer, errLonger}, {passed, errPassed}, {turns, errTurns}, {shut, errShut},
		{outlived, errOutlived}, {untold, errUntold},
	} {
		// Where keys are lost there is a promise about the tokens of writes alone.
		if s.wrong&c.bit != 0 && (m.losses == 0 || c.bit == oldToken) && (m.only == nil || errors.Is(m.only, c.err)) {
			return c.err
		}
	}
	if m.losses > 0 {
		return nil
	}
	if s.fields() != (s.mode != nobody) || s.mode != nobody && (s.ttl == 0 || s.ttl > m.longest()) ||
		s.places != [ids]uint8{} && (s.keptFor == 0 || s.keptFor > m.place) {
		return errEndless
	}
	if s.left && s.readers == [ids]reader{} && s.ttl > s.stay && (m.only == nil || errors.Is(m.only, errLonger)) {
		return errLonger
	}
	for _, r := range s.readers {
		if r.lease > m.longest() || s.ttl < r.lease && r.count > 0 && m.only == nil {
			return errEndless
		}
	}
	return nil
}

// longest is the longest lease there is.
func (m *rwlock) longest() uint8 {
	return max(m.long, m.leases[0], m.leases[1], m.leases[2])
}

func (m *rwlock) checkAlone(s *state) error {
	if m.losses > 0 || s.forced {
		return nil
	}
	for c := range m.clients {
		for d := range m.clients {
			if c != d && s.clients[c].held[write].id != 0 && (s.clients[d].held != [sides]hold{}) {
				return errAlone
			}
		}
	}
	return nil
}

func (m *rwlock) checkHolds(s *state) error {
	if m.losses > 0 || s.forced {
		return nil
	}
	for c := range m.clients {
		w, r := &s.clients[c].held[write], &s.clients[c].held[read]
		clean := func(id, side uint8) bool { return s.dirty&(1<<(id-1+side*ids)) == 0 }
		switch {
		case w.id != 0 && !s.writes(w.id):
			return errCut
		case r.id != 0 && (!s.reads(r.id) || s.readers[r.id-1].lease == 0):
			return errCut
		case w.id != 0 && clean(w.id, write) && s.count != w.holds:
			return fmt.Errorf("%w: %d, not %d", errCount, s.count, w.holds)
		case r.id != 0 && clean(r.id, read) && s.readers[r.id-1].count != r.holds:
			return fmt.Errorf("%w: %d, not %d", errCount, s.readers[r.id-1].count, r.holds)
		}
	}
	return nil
}

// checkSleep: nobody sleeps for long who would be granted the lock. Who was told of a place looks
// when that has ended.
func (m *rwlock) checkSleep(s *state) error {
	if m.losses > 0 || m.still {
		return nil
	}
	for c := range m.clients {
		cl := &s.clients[c]
		if cl.asleep() && (cl.look > m.place || cl.look == 0) && m.wouldBe(s.server, cl) {
			return errAsleep
		}
	}
	return nil
}

// checkLeft is for a network whose requests arrive however late; only what can do no harm here but
// take room is lost when it is late.
func (m *rwlock) checkLeft(s *state) error {
	if !m.brief || m.losses > 0 {
		return nil
	}
	for id := uint8(1); id <= ids; id++ {
		if s.crashed&(1<<(id-1)) != 0 {
			continue
		}
		cl := &s.clients[clientOf(id)]
		expected := cl.id == id
		for _, r := range s.net {
			expected = expected || r.id == id
		}
		switch {
		case expected:
		case s.reads(id) && s.ttl > 0 && cl.held[read].id != id, s.writes(id) && cl.held[write].id != id:
			return errLeft
		case s.places[id-1] > 1 && cl.held[write].id != id:
			return errPlace
		}
	}
	return nil
}

// free is the goal: nobody has the lock, and nobody does anything.
func (m *rwlock) free(s state) bool {
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
