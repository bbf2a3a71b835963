package latch

import "errors"

// wrong is a set of things that a step did and must not.
type wrong uint8

const (
	twice wrong = 1 << iota
	afterwards
	said
	missed
	over
	sooner
	early
)

// What must never be.
var (
	errTwice   = errors.New("a call has done twice what it does")
	errAfter   = errors.New("a call that has returned does something")
	errSaid    = errors.New("a caller was told what is not so")
	errMissed  = errors.New("a count-down was not counted")
	errOver    = errors.New("a latch that was set was set again")
	errSooner  = errors.New("a latch has ended sooner than the last word on it said")
	errEarly   = errors.New("a waiter was let in, and no moment was without a latch since it came")
	errEndless = errors.New("a key has no time to live")
	errGiven   = errors.New("a latch of Redisson's was given an end")
)

var wrongs = []error{errTwice, errAfter, errSaid, errMissed, errOver, errSooner, errEarly}

func (m *latching) check(s state) error {
	find := func(is bool, err error) error {
		if is && (m.only == nil || errors.Is(m.only, err)) {
			return err
		}
		return nil
	}
	for i, err := range wrongs {
		if err := find(s.wrong&(1<<i) != 0, err); err != nil {
			return err
		}
	}
	return errors.Join(
		find(s.count > 0 && !s.foreign && (s.ttl == 0 || s.ttl == endless), errEndless),
		find(s.count > 0 && s.foreign && s.ttl != endless, errGiven),
	)
}

// judgeEffect: a set begins a latch and does not replace one, and each word lengthens its life.
func (s *state) judgeEffect(before *keys, kind, stay uint8) {
	if kind == set && before.count > 0 {
		s.wrong |= over
	}
	switch {
	case s.count == 0:
	case s.foreign:
		s.due = endless
	default:
		s.due = max(s.due, stay)
	}
}

// judgeAnswer: what the caller is told is so.
func (s *state) judgeAnswer(c int) {
	cl := &s.clients[c]
	f := s.fates[cl.op.call]
	switch cl.op.kind {
	case count:
		if f.effects == 0 && !f.idle {
			s.wrong |= missed
		}
	default:
		if (cl.said == 1) != (f.effects > 0) {
			s.wrong |= said
		}
	}
}

// served is the goal: nobody waits while no latch is set.
func (m *latching) served(s state) bool { return s.count > 0 || !s.anybody() }

// Labels of steps. Those of callers come first by the kind of their call.
const (
	lServer = kinds + iota
	lAnswer
	lResends
	lGivesUp
	lDies
	lCount
)

const (
	lUntold    = "somebody deletes the key, and tells nobody"
	lRCounts   = "Redisson counts down"
	lRDeletes  = "Redisson deletes the latch"
	lRSets     = "Redisson sets a latch"
	lLooks     = "W: the server executes its look"
	lUnheard   = "W: hears nothing of its look, and the waits end with an error"
	lSees      = "W: gets the answer to its look"
	lWakes     = "W: has reason to look"
	lListens   = "W: the server subscribes it"
	lConfirmed = "W: knows that it listens"
	lNotices   = "W: notices that its connection is broken"
	lTold      = "W: gets a message"
	lLingered  = "W: its subscription ends"
	lBreaks    = "W's connection breaks"
	lDropped   = "a late request is lost"
	lStraggler = "a late request arrives"
	lTime      = "time passes"
)

var (
	lJoins      = [maxWaiters]string{"W: its first waiter comes", "W: its second waiter comes"}
	lLeaves     = [maxWaiters]string{"W: its first waiter leaves", "W: its second waiter leaves"}
	otherLabels = [kinds]string{set: "another sets the latch", count: "another counts down", remove: "another deletes the latch"}
	labels      = func() (all [maxClients][lCount]string) {
		texts := [lCount]string{
			set: "sets", count: "counts down", remove: "deletes", lServer: "the server executes its call", lAnswer: "gets the answer",
			lResends: "hears nothing and sends again", lGivesUp: "hears nothing and gives up", lDies: "dies",
		}
		for c := range all {
			for l := range all[c] {
				all[c][l] = string(rune('A'+c)) + ": " + texts[l]
			}
		}
		return all
	}()
)

// quiet are the steps of the gate and of its connection. None of them is another's word on the latch.
func (m *latching) quiet(label string) bool {
	switch label {
	case lLooks, lSees, lWakes, lListens, lConfirmed, lNotices, lTold, lLingered:
		return true
	case lTime:
		return m.rest != endless
	}
	return false
}
