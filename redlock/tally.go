package redlock

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/master"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// tally is what the masters said to one question.
type tally struct {
	answers []answer // one for each master
	waiting int      // for how many it is too early to tell
}

// answer is what one master said, or why it said nothing.
type answer struct {
	reply  lua.Reply
	begun  time.Time   // when it was decided to ask
	sent   time.Time   // when the question was sent: later, on a busy machine
	err    error       // none came, or errWaiting
	run    *master.Run // that gave it, if the owner holds the lock there only now
	counts bool        // the owner holds the lock there, and the master can be believed
	doubt  error       // why it cannot
	unsent bool        // nothing of the question was written to a connection
	said   string      // the reply in words, if it is to another question than whether an owner holds the lock
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

// refuses reports whether another owner holds the lock at the master, or this one does not.
func (a *answer) refuses() bool { return a.err == nil && a.reply.Status != lua.Done }

// holder is the owner that it says holds the lock, where it refuses it for that. One who has left
// the lock is the same at all masters, although the word of that may not have come to each.
func (a *answer) holder() string { return remote.OwnerIn(a.reply.Text(1)) }

func (a *answer) String() string {
	switch {
	case a.doubt != nil:
		return a.doubt.Error()
	case a.err != nil:
		return a.err.Error()
	case a.said != "":
		return a.said
	case a.reply.Status == lua.Denied:
		return "held by " + a.holder()
	case a.reply.Status == lua.Gone:
		return "not held"
	}
	return "granted"
}

// count is for how many masters something is so.
func (p *tally) count(is func(*answer) bool) (n int) {
	for i := range p.answers {
		if is(&p.answers[i]) {
			n++
		}
	}
	return n
}

func (p *tally) refused() int { return p.count((*answer).refuses) }

// votes is how many masters count for the owner.
func (p *tally) votes() int { return p.count(func(a *answer) bool { return a.counts }) }

// rival is another owner that holds the lock.
type rival struct {
	owner, token string
	masters      int           // at so many
	left         time.Duration // the most of the lease that is left at one of them; -1 if none has an end
}

// blocker is what is told of it, where so many masters are a majority. Without an owner nothing is
// known.
func (r rival) blocker(need int) remote.Blocker {
	if r.owner == "" {
		return remote.Blocker{Left: -1}
	}
	ends := int64(0)
	if r.left < 0 {
		ends = -1
	}
	b := remote.InTheWay(ends, r.owner)
	b.Left, b.Stays = r.left, b.Stays && r.masters >= need
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
			list = append(list, rival{owner: a.holder(), token: a.reply.Text(2), left: -1})
		}
		list[at].masters++
		list[at].left = max(list[at].left, remote.Remaining(a.reply.Int(0)))
	}
	return list
}

// owned is at how many masters, of those that count, the lock is held by the one of the others who
// has most.
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

// quorumError is why no majority came about.
type quorumError struct {
	q      *quorum
	tally  *tally
	agreed int // masters; an answer alone is no consent
}

// Error says what each master said.
func (e *quorumError) Error() string {
	return fmt.Sprintf("%d of %d masters agreed, and %d have to%s", e.agreed, len(e.tally.answers), e.q.need,
		e.tally.text(e.q))
}

// text says what each master said.
func (p *tally) text(q *quorum) (text string) {
	for i := range p.answers {
		text += "; " + q.voters[i].place + ": " + p.answers[i].String()
	}
	return text
}

// Unwrap is what went wrong at each of them, for errors.Is.
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

// final reports whether it is no use to ask again: so many masters refuse to serve, or cannot be
// asked by this client, that a majority cannot come about.
func (e *quorumError) final() bool { return e.hopeless(refusal) }

// Outage reports whether it is an outage: unless the masters themselves said that asking again is
// no use.
func (e *quorumError) Outage() bool {
	return !e.hopeless(func(err error) bool { return errs.IsReply(err) && refusal(err) })
}

func (e *quorumError) hopeless(refused func(error) bool) bool {
	refusals := e.tally.count(func(a *answer) bool {
		return refused(a.err) || errs.IsReply(a.doubt) &&
			refusal(a.doubt)
	})
	return refusals > len(e.tally.answers)-e.q.need
}

func refusal(err error) bool {
	if err == nil || errors.Is(err, errWaiting) || errors.Is(err, remote.ErrSilent) {
		return false
	}
	_, passing := remote.Classify(err)
	return !passing
}

// open reports whether a master may have done what it was asked, without an answer.
func (e *quorumError) open() bool {
	return e.tally.count(func(a *answer) bool {
		return unanswered(a.err) != nil && !errors.Is(a.err, errClosing) && !a.unsent
	}) > 0
}
