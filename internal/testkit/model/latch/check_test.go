package latch

import "github.com/holdfast-go/holdfast/internal/testkit/model"

// What must never be.
var (
	must       model.Promises
	errTwice   = must.Never("a call has done twice what it does")
	errAfter   = must.Never("a call that has returned does something")
	errSaid    = must.Never("a caller was told what is not so")
	errMissed  = must.Never("a count-down was not counted")
	errOver    = must.Never("a latch that was set was set again")
	errSooner  = must.Never("a latch has ended sooner than the last word on it said")
	errEarly   = must.Never("a waiter was let in, and no moment was without a latch since it came")
	errEndless = must.Never("a key has no time to live")
	errGiven   = must.Never("a latch of Redisson's was given an end")
)

func (m *latching) check(s *state) error {
	broken := s.wrong
	broken.If(s.count > 0 && !s.foreign && (s.ttl == 0 || s.ttl == model.Endless), errEndless)
	broken.If(s.count > 0 && s.foreign && s.ttl != model.Endless, errGiven)
	return must.First(broken, m.only)
}

// judgeEffect: a set begins a latch and does not replace one, and each word lengthens its life.
func (s *state) judgeEffect(before *keys, kind, stay uint8) {
	s.wrong.If(kind == set && before.count > 0, errOver)
	switch {
	case s.count == 0:
	case s.foreign:
		s.due = model.Endless
	default:
		s.due = max(s.due, stay)
	}
}

// judgeAnswer: what the caller is told is so.
func (s *state) judgeAnswer(c int) {
	cl := &s.clients[c]
	f := s.fates[cl.op.call]
	counts := cl.op.kind == count
	s.wrong.If(counts && f.effects == 0 && !f.idle, errMissed)
	s.wrong.If(!counts && (cl.said == 1) != (f.effects > 0), errSaid)
}

// served is the goal: nobody waits while no latch is set. Quiet are the steps of the gate and of its
// connection: none of them is another's word on the latch.
func (m *latching) served(s *state) bool { return s.count > 0 || !s.anybody() }
