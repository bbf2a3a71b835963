package redlock

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// gap is a time in which a master may have granted the lock to another owner while this owner held
// the lock. The key was deleted at that master, its data were lost, its clock was set forward, or
// it has not granted the lock to this owner yet.
//
// Another owner needs the votes of a majority of all masters, and there is a moment when it has
// them all. At that moment none of these masters holds the lock for us. So as long as fewer than a
// majority have a gap at each moment, no other owner can have got the lock. If at some moment a
// majority had a gap, the hold is lost for good, however many masters grant it anew: the other
// owner may have come and gone.
//
// A gap begins when the last question that the master answered with "held" was sent, because the
// master held the lock then. If the master has never held the lock, the gap begins with the hold. A
// gap ends when the master grants the lock anew, with these exceptions:
//
//   - If the master had granted the lock to us before, the gap goes on for one lease. A master that
//     has forgotten us may have forgotten other owners too, which still count its vote. For that
//     time its vote does not count for us, like the vote of a master that was started a moment ago.
//
//   - A master that grants the lock to us for the first time may have forgotten an owner whose
//     election went on at that time. So the gap ends when that election must be over, see
//     [ballot.lasts]. The vote counts at once: mostly the master was held by an owner that asked in
//     vain, and otherwise we would have a bare majority for a lease. When the gap ends, the hold is
//     renewed, so that a gap of another master begins after that.
//
//   - There was no gap if the master grants the lock anew and its last token is still the one that
//     it told us, because each grant raises the token. If the master grants the lock to us for the
//     first time, it is enough that its last token is not above all tokens that were known, before
//     the win, to the masters that made us the holder. A token that is gone proves nothing, unless
//     the vote was already on its way (see [ballot.earlyLocked]) when the lock was won. Mostly some
//     votes are, and masters that never had a token would otherwise have a gap after each win. (Not
//     noticed: such a master granted the lock to another owner, and lost all keys, before the vote
//     arrived.) A greater token does not prove that another owner had the lock: failed attempts
//     raise it too.
//
//   - There was no gap either if the master was restarted meanwhile, within a lease. Until the
//     restart it held the lock for us, and since then its votes count for nobody, see
//     [master.Run.Doubt]. (Not noticed: the key was deleted at the master before the restart.)
//
// A silent master has no gap: it is assumed to hold the lock as before, until it answers.
// (Rejected: never to count a vote again that was once lost. Then a hold would not survive restarts
// of its masters one after the other.)
//
// Not noticed: a gap at a master that later executes an old vote of this owner whose answer is
// lost, and so grants the lock anew. That can happen only within seconds after the vote was sent:
// later the vote refuses itself, see [remote.Clock.Limit].
type gap struct {
	from, until time.Time // zero: there is none
	again       time.Time // the time from which the master's vote counts
}

// trackLocked notes what an answer says about gaps at master i. It runs before anything else of the
// answer is noted.
func (b *ballot) trackLocked(i int, what question, a *answer) {
	v := &b.votes[i]
	fresh := a.holds() && what.grants && a.reply.Vote().Fresh
	if v.held && v.open.IsZero() && (fresh || a.refuses()) && !v.releaseSent { // otherwise we may have released it
		v.open = v.seen
	}
	if !a.holds() {
		return
	}
	if !v.open.IsZero() {
		b.closeLocked(v, fresh, a)
	}
	if a.sent.After(v.seen) {
		v.seen = a.sent
	}
	if what.grants {
		v.token = max(v.token, number(a.reply.Vote().Token))
	}
	if a.run != nil {
		v.run = a.run.ID
	}
}

// closeLocked ends a gap: the master holds the lock for us again, or for the first time.
func (b *ballot) closeLocked(v *vote, fresh bool, a *answer) {
	from, last := v.open, number(a.reply.Vote().Last)
	v.open = time.Time{}
	now, again := time.Now(), v.gap.again
	switch {
	case !v.granted && fresh && last <= b.before && (last != 0 || b.earlyLocked(a)):
		return
	case v.granted && fresh && last == v.token && last != 0:
		return
	case v.granted && fresh && b.restartedLocked(v, a) && now.Sub(from) < b.longestLeaseLocked():
		return
	}
	until := now.Add(min(b.lasts(), b.longestLeaseLocked()))
	if v.granted {
		until = now.Add(b.longestLeaseLocked())
		again = until
	}
	if v.gap.until.After(from) {
		from = v.gap.from
	}
	v.gap = gap{from, until, again}
}

// earlyLocked reports whether a question was on its way when the lock was won. A busy machine may
// send the question a moment after the decision to ask. It still counts if the wait for the master
// would not have been over by then.
func (b *ballot) earlyLocked(a *answer) bool {
	return a.begun.Before(b.won) && a.sent.Before(b.won.Add(b.patience))
}

// lasts is how long an election takes at most, in every process that has the same [MasterTimeout]
// or the default. An election that took longer, because its process was held up, is not won.
func (b *ballot) lasts() time.Duration {
	const rounds = 3 // ask the lead; ask the rest; tell all masters the token
	return (rounds + 1) * max(b.patience, DefaultMasterTimeout)
}

// restartedLocked reports whether a master that grants the lock anew has been restarted since it
// granted the lock before, and has no vote yet.
func (b *ballot) restartedLocked(v *vote, a *answer) bool {
	return a.run != nil && v.run != "" && a.run.ID != v.run &&
		b.doubtLocked(a.run, b.q.first()) != nil
}

// begin notes that the masters of the tally have made the owner the holder. Masters that have not
// granted the lock yet may grant it to others, so their gaps begin.
func (b *ballot) begin(p *tally) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.won = now
	for i := range b.votes {
		if a := &p.answers[i]; a.counts {
			b.before = max(b.before, number(a.reply.Vote().Last))
		}
		if v := &b.votes[i]; !v.held && v.open.IsZero() {
			v.open = now
		}
	}
}

// overtaken reports whether, by what is known, a majority may have granted the lock to another
// owner since this owner got it. but leaves out masters whose open gap will be better known later.
func (b *ballot) overtaken(but func(i int) bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.votes {
		for _, at := range []time.Time{b.votes[i].gap.from, b.votes[i].open} { // gaps are most when one begins
			if at.IsZero() {
				continue
			}
			n := 0
			for j := range b.votes {
				v := &b.votes[j]
				closed := !at.Before(v.gap.from) && at.Before(v.gap.until)
				open := !v.open.IsZero() && !at.Before(v.open) && !but(j)
				if closed || open {
					n++
				}
			}
			if n >= b.q.need {
				return true
			}
		}
	}
	return false
}

func none(int) bool { return false }

// joins is the time until a gap that ended with a master's first grant is over; 0 if there is none.
func (g gap) joins() time.Duration {
	if g.again.Equal(g.until) {
		return 0
	}
	return max(time.Until(g.until), 0)
}

// doubt returns an error if a vote does not count yet because the master forgot the lock a short
// time ago, and nil otherwise.
func (g gap) doubt() error {
	left := time.Until(g.again)
	if left <= 0 {
		return nil
	}
	return fmt.Errorf("granted, but it had forgotten that it was held, and may have granted it to somebody else: its vote counts in %v",
		left.Round(time.Millisecond))
}

// lost reports whether the answers to a question show that the lock is lost. It leaves out masters
// that have not answered, and masters that other owners hold: more will be known about them, or the
// deadline comes. But if a single other owner keeps a majority out of reach, the lock is lost.
func (b *ballot) lost(p *tally) bool {
	if b.outvoted(p) {
		return true
	}
	return b.overtaken(func(i int) bool {
		a := &p.answers[i]
		return a.err != nil || a.reply.Status == lua.Denied
	})
}

// outvoted reports whether one other owner holds the lock at so many masters that the rest is no
// majority. A master that was started a short time ago does not count for the other owner either.
// That owner mostly finds this out and gives its votes back.
func (b *ballot) outvoted(p *tally) bool {
	first := b.q.first()
	b.mu.Lock()
	defer b.mu.Unlock()
	return p.owned(func(i int) bool {
		run := b.q.voters[i].Known()
		return run == nil || b.doubtLocked(run, first) == nil
	}) > len(b.votes)-b.q.need
}

// gone is the outcome of a question whose answers show that the lock is lost. It stores the reason,
// because the outcome for the watchdog does not have it.
func (b *ballot) gone(p *tally) remote.Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.why = &lossError{b.q, p, b.gapsLocked()}
	return remote.Outcome{Reply: lua.Reply{Status: lua.Gone}}
}

// gapsLocked lists the masters at which others may have held the lock since this owner got it.
func (b *ballot) gapsLocked() (list []string) {
	for i := range b.votes {
		v := &b.votes[i]
		switch {
		case !v.open.IsZero():
			list = append(list, fmt.Sprintf("%s since %v ago", b.q.voters[i].place,
				time.Since(v.open).Round(time.Millisecond)))
		case !v.gap.from.IsZero():
			until := max(time.Since(v.gap.until), 0) // while the vote does not count, the gap is not over
			list = append(list, fmt.Sprintf("%s from %v ago until %v ago", b.q.voters[i].place,
				time.Since(v.gap.from).Round(time.Millisecond), until.Round(time.Millisecond)))
		}
	}
	return list
}

// lossError says why a hold that a majority had granted is lost.
type lossError struct {
	q     *quorum
	tally *tally   // the answers to the question that showed the loss; nil if no question did
	gaps  []string // the masters at which others may have held the lock meanwhile
}

// Error has each master's answer.
func (e *lossError) Error() string {
	text := fmt.Sprintf("a majority of the %d masters is not known to have held it without a break", len(e.q.voters))
	if e.tally != nil {
		text += e.tally.text(e.q)
	}
	if len(e.gaps) > 0 {
		text += "; others may have held it at " + strings.Join(e.gaps, ", at ")
	}
	return text
}

// number parses a token; 0 if there is none.
func number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// LossCause is [engine.Entry.LossCause].
func (b *ballot) LossCause() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why
}
