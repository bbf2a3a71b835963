package redlock

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/master"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// tally has the masters' answers to one question.
type tally struct {
	answers []answer // one for each master
}

// answer is one master's answer, or the reason why there is none.
type answer struct {
	reply  lua.Reply
	begun  time.Time   // when the client decided to ask
	sent   time.Time   // when the question was sent: later, on a busy machine
	script *lua.Script // the question
	err    error       // why there is no answer; errWaiting at first
	run    *master.Run // the master's run, if the owner has got the lock there only now
	counts bool        // the owner holds the lock there, and the master is believed
	doubt  error       // why the master is not believed
	unsent bool        // nothing of the question was written to a connection
	words  string      // the reply in words, if the question was another than whether an owner holds the lock
}

var (
	errWaiting = errors.New("no answer yet")
	errClosing = errors.New("its client was closed")
)

func (q *quorum) newTally() *tally {
	p := &tally{answers: make([]answer, len(q.voters))}
	for i := range p.answers {
		p.answers[i].err = errWaiting
	}
	return p
}

// holds reports whether the owner holds the lock at the master.
func (a *answer) holds() bool { return a.err == nil && a.reply.Status == lua.Done }

// refuses reports whether the master answered that this owner does not hold the lock.
func (a *answer) refuses() bool { return a.err == nil && a.reply.Status != lua.Done }

// holder is the owner that holds the lock according to a refusal. If that owner has left the lock,
// its name is different at masters that know this; holder makes it the same.
func (a *answer) holder() string { return remote.OwnerIn(a.reply.Vote().Owner) }

// heldBy describes an owner. Text that is not an owner's name is quoted, because others wrote it.
func heldBy(owner string) string {
	if !remote.IsOwner(owner) {
		owner = printable.Quote(owner)
	}
	return "held by " + owner
}

func (a *answer) String() string {
	switch {
	case a.doubt != nil:
		return printable.Line(a.doubt.Error()) // what other masters said follows it
	case a.err != nil:
		return printable.Line(a.err.Error())
	case a.words != "":
		return a.words
	case a.reply.Status == lua.Denied:
		return heldBy(a.holder())
	case a.reply.Status == lua.Gone:
		return "not held"
	}
	return "granted"
}

// count is the number of masters for which the condition is true.
func (p *tally) count(is func(*answer) bool) (n int) {
	for i := range p.answers {
		if is(&p.answers[i]) {
			n++
		}
	}
	return n
}

func (p *tally) refused() int { return p.count((*answer).refuses) }

// votes is the number of masters that count for the owner.
func (p *tally) votes() int { return p.count(func(a *answer) bool { return a.counts }) }

// rival is another owner that holds the lock.
type rival struct {
	owner, token string
	masters      int           // how many masters name it
	left         time.Duration // the greatest rest of the lease at one of them; -1 if the lease has no end
	ended        bool          // one of them knows that it has unlocked, and the lock stays taken
	votes        error         // what each master said, if no owner is known to have a majority
}

// blocker describes the rival for errors; need is the majority. Without an owner, the holder is not known.
func (r rival) blocker(need int) remote.Blocker {
	if r.owner == "" {
		return remote.Blocker{Left: -1, Votes: r.votes}
	}
	ends := int64(0)
	if r.left < 0 {
		ends = -1
	}
	b := remote.InTheWay(ends, r.owner)
	b.Left, b.Stays, b.Ended = r.left, b.Stays && r.masters >= need, r.ended
	return b
}

func (p *tally) rivals() (list []rival) {
	for i := range p.answers {
		a := &p.answers[i]
		if a.err != nil || a.reply.Status != lua.Denied {
			continue
		}
		at := slices.IndexFunc(list, func(r rival) bool { return r.owner == a.holder() })
		if at < 0 {
			at = len(list)
			list = append(list, rival{owner: a.holder(), token: a.reply.Vote().Last, left: -1})
		}
		list[at].masters++
		list[at].ended = list[at].ended || a.reply.Vote().Owner != a.holder()
		list[at].left = max(list[at].left, remote.Remaining(a.reply.Vote().Millis))
	}
	return list
}

// votesFor is the number of masters that name another owner as the holder.
func (p *tally) votesFor(owner string) int {
	return p.count(func(a *answer) bool { return a.err == nil && a.reply.Status == lua.Denied && a.holder() == owner })
}

// undecided reports whether masters that failed to answer decide whether another owner has a majority.
// (Masters that are too young to vote have answered: no owner has their votes.)
func (p *tally) undecided(need int) bool {
	failed := p.count(func(a *answer) bool { return a.err != nil && !errors.Is(a.err, errWaiting) })
	missing := p.count(func(a *answer) bool { return a.err != nil })
	return failed > 0 && slices.ContainsFunc(p.rivals(), func(r rival) bool { return r.masters+missing >= need })
}

// doubt makes the votes of masters not count that may have forgotten a grant to another owner.
func (p *tally) doubt(whose func(*answer) bool, owner string) {
	for i := range p.answers {
		if a := &p.answers[i]; whose(a) {
			a.counts, a.doubt = false, fmt.Errorf("granted, but it started %s ago and may have forgotten a grant to %s",
				a.run.Age(), owner)
		}
	}
}

// owned is the number of masters at which the other owner with the most masters holds the lock. It
// includes only masters that count.
func (p *tally) owned(counts func(i int) bool) (most int) {
	at := make(map[string]int)
	for i := range p.answers {
		if a := &p.answers[i]; a.err == nil && a.reply.Status == lua.Denied && counts(i) {
			at[a.holder()]++
			most = max(most, at[a.holder()])
		}
	}
	return most
}

// quorumError says why there is no majority.
type quorumError struct {
	q      *quorum
	tally  *tally
	agreed int // how many masters agreed; an answer may also be a refusal
}

// Error has each master's answer.
func (e *quorumError) Error() string {
	return fmt.Sprintf("%d of %d masters agreed, and %d have to%s", e.agreed, len(e.tally.answers), e.q.need,
		e.tally.text(e.q))
}

// text lists each master's answer.
func (p *tally) text(q *quorum) (text string) {
	for i := range p.answers {
		text += "; " + q.voters[i].place + ": " + p.answers[i].String()
	}
	return text
}

// Unwrap returns the failures of the masters, for errors.Is.
func (e *quorumError) Unwrap() (errs []error) {
	for _, a := range e.tally.answers {
		for _, err := range []error{a.err, a.doubt} {
			if err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

// Silent is [engine.Undecided].
func (e *quorumError) Silent(p remote.Patience) bool {
	for i := range e.tally.answers {
		switch err := e.tally.answers[i].err; {
		case err == nil, errors.Is(err, errWaiting), errors.Is(err, remote.ErrLate):
		case !errors.Is(err, remote.ErrSilent), e.q.isSilent(i, p):
			return true
		}
	}
	return false
}

// final reports whether it is useless to ask again: so many masters refuse to serve, or cannot be
// asked by this client, that no majority is possible.
func (e *quorumError) final() bool { return e.hopeless(refusal) }

// Outage reports whether the error is an outage. It is not one if the masters' own replies make it
// useless to ask again, or say that others have had the lock.
func (e *quorumError) Outage() bool {
	return !remote.IsTaken(e) && !e.hopeless(func(err error) bool { return errs.IsReply(err) && refusal(err) })
}

func (e *quorumError) hopeless(refused func(error) bool) bool {
	refusals := e.tally.count(func(a *answer) bool {
		return refused(a.err) || errs.IsReply(a.doubt) &&
			refusal(a.doubt)
	})
	return refusals > len(e.tally.answers)-e.q.need
}

// timeoutError is the error for a master that has not answered for some time.
type timeoutError struct {
	since time.Duration
	why   error // the last failure, if there was one
}

// timeoutError is the error for a master that has not answered for so long that callers do not wait for it.
func (v *voter) timeoutError(since time.Duration) *timeoutError {
	return &timeoutError{since, v.Failure()}
}

// soFar is the error for a master that has not answered when the wait ends.
func (v *voter) soFar(begun time.Time) error {
	if v.Failure() == nil {
		return errWaiting
	}
	return v.timeoutError(time.Since(begun))
}

func (s *timeoutError) Error() string {
	text := fmt.Sprintf("%v for %v", remote.ErrSilent, s.since.Round(time.Millisecond))
	if s.why != nil {
		text += ": " + s.why.Error()
	}
	return text
}

func (s *timeoutError) Unwrap() []error {
	if s.why == nil {
		return []error{remote.ErrSilent}
	}
	return []error{remote.ErrSilent, s.why}
}

func refusal(err error) bool {
	if err == nil || errors.Is(err, errWaiting) || errors.Is(err, remote.ErrSilent) {
		return false
	}
	_, passing := remote.Classify(err)
	return !passing
}

// open reports whether a master may have executed the command without an answer.
func (e *quorumError) open() bool {
	return e.tally.count(func(a *answer) bool {
		return unanswered(a.err) != nil && !errors.Is(a.err, errClosing) && !a.unsent
	}) > 0
}
