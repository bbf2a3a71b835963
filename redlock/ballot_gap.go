package redlock

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// gap is a time in which a master may have granted the lock to somebody else while this owner held
// it: its key was deleted there, its data were lost, its clock was set forward, or it has not
// granted the lock to this owner yet.
//
// Another owner needs the votes of a majority of all masters, and there is a moment when it has
// them all. At that moment none of them holds the lock for us. So while at each moment fewer than a
// majority have a gap, nobody else can have been granted the lock; and where that may have been,
// the hold is lost, for good, however many masters grant it anew: the other one may have come and
// gone.
//
// A gap begins with the last question that the master has answered with "held", for it held the
// lock when that was sent; or with the hold, where it did not hold the lock then. It ends when the
// master grants the lock anew; but
//
//   - not for a lease. A master that has forgotten us may have forgotten others too, who still
//     count its vote. It does not count for us either for that time, as one does not that was started
//     a moment ago.
//
//   - One that has not granted the lock to us before may have forgotten somebody who stood for
//     election then: the gap ends when that election has, see [ballot.lasts]. Its vote counts at
//     once: mostly it was held by somebody who asked in vain, and we would stand on a bare majority
//     for a lease. Then the hold is renewed, so that what another master forgets from now on is not
//     before that.
//
//   - It is as if it had never been, if the master grants the lock anew and the last token that
//     it knew until then is the very one that it told us: each grant makes it greater. Of one that
//     grants the lock for the first time it is enough that its last token is not above all that the
//     masters knew before us which made us the holder. A token that is gone proves nothing, unless
//     the vote was on its way already (see [ballot.earlyLocked]) when the lock was won, as mostly
//     some are: masters that never had a token would else have a gap after each win. (Not noticed:
//     that such a master granted it to somebody, and lost all keys, before the vote came.) Nor does a
//     greater one prove that somebody else had the lock: attempts that fail raise it.
//
//   - It is as if it had never been, too, if the master was started anew meanwhile, within a lease:
//     until that was so it held the lock for us, and since then its votes count for nobody, see
//     [master.Run.Doubt]. (Not noticed: that the key was deleted there before.)
//
// What is not heard of does not count: who is silent is taken to hold the lock as it did, until it
// answers. (Rejected: to take back nothing that was once lost. Then a hold would not survive its
// masters' being restarted one after the other.)
//
// Not noticed: a gap at a master that executes a vote of this owner later, of which nobody hears,
// and so grants the lock anew. That can be for seconds after the vote was sent, not longer: then it
// refuses itself, see [remote.Clock.Limit].
type gap struct {
	from, until time.Time // zero: there is none
	again       time.Time // from when on the master's vote counts
}

// trackLocked notes what an answer says of gaps at master i. It comes before anything else of the
// answer is noted.
func (b *ballot) trackLocked(i int, what question, a *answer) {
	v := &b.votes[i]
	fresh := a.holds() && what.grants && a.reply.Int(1) == 0
	if v.held && v.open.IsZero() && (fresh || a.refuses()) && !v.given { // else it may have been released by us
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
		v.token = max(v.token, number(a.reply.Text(0)))
	}
	if a.run != nil {
		v.run = a.run.ID
	}
}

// closeLocked ends a gap: the master holds the lock for us, anew or for the first time.
func (b *ballot) closeLocked(v *vote, fresh bool, a *answer) {
	from, last := v.open, number(a.reply.Text(2))
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

// earlyLocked reports whether a question was on its way when the lock was won. A machine that is
// busy sends it a moment later than it was decided to; not so late that the master would have been
// given up meanwhile.
func (b *ballot) earlyLocked(a *answer) bool {
	return a.begun.Before(b.won) && a.sent.Before(b.won.Add(b.patience))
}

// lasts is how long an election takes at most, of whoever has the same [MasterTimeout] or the
// default. One that took longer, because its process was held up, is not won.
func (b *ballot) lasts() time.Duration {
	const rounds = 3 // the lead is asked, the rest, and all are told the token
	return (rounds + 1) * max(b.patience, DefaultMasterTimeout)
}

// restartedLocked reports whether a master that grants the lock anew is another process than the
// one that granted it before, and has no vote yet.
func (b *ballot) restartedLocked(v *vote, a *answer) bool {
	return a.run != nil && v.run != "" && a.run.ID != v.run &&
		b.doubtLocked(a.run, b.q.first()) != nil
}

// begin notes that the masters of the tally have made the owner the holder. Those that have not
// granted the lock yet may grant it to others.
func (b *ballot) begin(p *tally) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.won = now
	for i := range b.votes {
		if a := &p.answers[i]; a.counts {
			b.before = max(b.before, number(a.reply.Text(2)))
		}
		if v := &b.votes[i]; !v.held && v.open.IsZero() {
			v.open = now
		}
	}
}

// overtaken reports whether a majority may have granted the lock to somebody else since this owner
// got it, by what is known. Masters whose gap goes on may be left out, because more will be known
// of it.
func (b *ballot) overtaken(but func(i int) bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.votes {
		for _, at := range []time.Time{b.votes[i].gap.from, b.votes[i].open} { // most have one at once when one begins
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

// joins is how long it takes until a gap is over that ended with a master's first grant; 0 if there
// is none.
func (g gap) joins() time.Duration {
	if g.again.Equal(g.until) {
		return 0
	}
	return max(time.Until(g.until), 0)
}

// doubt is why a vote does not count yet because the master has forgotten the lock a short time
// ago, nil if it has not.
func (g gap) doubt() error {
	left := time.Until(g.again)
	if left <= 0 {
		return nil
	}
	return fmt.Errorf("granted, but it had forgotten that it was held, and may have granted it to somebody else: its vote counts in %v",
		left.Round(time.Millisecond))
}

// lost reports whether the answers to a question show that the lock is lost. Of masters that have
// not answered, or that others hold, more will be known, or the deadline comes; unless the others
// are one, who keeps a majority out of reach.
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
// majority. One that was started a short time ago does not count for the other either, who will
// mostly find that out and give its votes back.
func (b *ballot) outvoted(p *tally) bool {
	first := b.q.first()
	b.mu.Lock()
	defer b.mu.Unlock()
	return p.owned(func(i int) bool {
		run := b.q.voters[i].Known()
		return run == nil || b.doubtLocked(run, first) == nil
	}) > len(b.votes)-b.q.need
}

// gone is the outcome of a question whose answers show that the lock is lost. It keeps why, which
// is more than the watchdog is told.
func (b *ballot) gone(p *tally) remote.Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.why = &lossError{b.q, p, b.gapsLocked()}
	return remote.Outcome{Reply: lua.Reply{Status: lua.Gone}}
}

// gapsLocked says where others may have held the lock since this owner has it.
func (b *ballot) gapsLocked() (list []string) {
	for i := range b.votes {
		v := &b.votes[i]
		switch {
		case !v.open.IsZero():
			list = append(list, fmt.Sprintf("%s since %v ago", b.q.voters[i].place,
				time.Since(v.open).Round(time.Millisecond)))
		case !v.gap.from.IsZero():
			until := max(time.Since(v.gap.until), 0) // of a vote that does not count yet it is not over
			list = append(list, fmt.Sprintf("%s from %v ago until %v ago", b.q.voters[i].place,
				time.Since(v.gap.from).Round(time.Millisecond), until.Round(time.Millisecond)))
		}
	}
	return list
}

// lossError is why a hold is lost that a majority had granted.
type lossError struct {
	q     *quorum
	tally *tally   // what the masters said to the question that showed it; nil if it was none
	gaps  []string // where others may have held the lock meanwhile
}

// Error says what each master said.
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

// number is a token, 0 if there is none.
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
