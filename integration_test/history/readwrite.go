package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// writers are the operations of possible writers: of an Upgrade too, which waits to write once its hold to read has ended.
func writers(ops []Op) []Op {
	return slices.DeleteFunc(slices.Clone(ops), func(o Op) bool { return o.Shared && o.Kind != Upgrade })
}

// waitsToWrite reports whether an operation may have had a place among the writers.
func (o *Op) waitsToWrite() bool {
	return o.Kind == Upgrade || !o.Shared && (o.Kind == Lock || o.Kind == Reenter)
}

// forgotten is for how long at least a server remembers the token of a name that nobody uses.
const forgotten = 58 * time.Minute

// readTokens finds readers whose token is not that of the last write. It is that of a write that was
// called before, greater than those of all writes that are surely over, and smaller than those
// of all that were asked for later. Where a write may have been granted that nobody was told of, or
// the last token may have been forgotten, it may be another one, but never a smaller one.
func readTokens(ops []Op, c Config) (found []Violation) {
	for name, ops := range byName(ops) {
		for _, r := range ops {
			if !r.granted() || !r.Shared {
				continue
			}
			text, known, last := "", false, int64(-1)<<62
			var other Op
			for i := range ops {
				o := &ops[i]
				if !o.granted() {
					continue
				}
				if o.Return < r.Call {
					last = max(last, o.Call)
				}
				switch {
				case o.Return < r.Call && o.Token > r.Token:
					text, other = "a reader has a token older than that of a grant before", *o
				case o.Call > r.Return && !o.Shared && o.Token <= r.Token:
					text, other = "a reader has a token as great as that of a write after", *o
				case o.Token == r.Token && !o.Shared:
					known = true
				}
			}
			if text == "" && !known && last > 0 && r.Return-last < int64(forgotten) && !c.unseenWrite(ops, last, r.Return) &&
				!slices.ContainsFunc(ops, func(o Op) bool {
					return o.granted() && o.Token == r.Token && o.grant() != r.grant() && o.Call < r.Return
				}) {
				text = "a reader has a token that no write had, and no reader before"
			}
			if text != "" {
				found = append(found, Violation{"read token", name, text, append([]Op{r, other}, ops...), nil})
			}
		}
	}
	return found
}

// unseenWrite reports whether somebody may have been granted the lock to write in a time, who was not told so, or was told of a
// later grant, because the lease was over when it asked again; or the server may have lost its data.
func (c *Config) unseenWrite(ops []Op, from, to int64) bool {
	return slices.ContainsFunc(ops, func(o Op) bool {
		unseen := o.waitsToWrite() || o.Kind == Try && !o.Shared
		switch o.Result {
		case Denied, Refused:
			unseen = false
		case OK:
			unseen = unseen && c.troubled(o)
		}
		return (unseen || o.Kind == Wipe) && o.Call <= to && after(o.Return, c.Recovery+c.Lease+c.Late) >= from
	})
}

// Turns finds readers let in before a writer that waited before they came: while its place counts a reader gets in only behind
// a write, so none during whose call nobody wrote. For how long it counts from each attempt, kept says.
func Turns(ops []Op, c Config) (found []Violation) {
	for name, ops := range byName(ops) {
		all := tenures(ops, c.Lease)
		for _, q := range ops {
			if q.Kind != Queue || q.Result != OK {
				continue
			}
			from, to := q.Return, min(q.Call+int64(kept)*99/100, leftAt(ops, q))
			if c.felt(q.Client, q.Call, to) {
				continue // what it sent before may come late, and take the place away
			}
			for i := range ops {
				r := &ops[i]
				if !r.granted() || !r.Shared || r.Guest || r.Call <= from || after(r.Return, c.Slack) >= to || meetsWrite(all, q, *r) ||
					c.unseenWrite(ops, r.Call, r.Return) ||
					slices.ContainsFunc(ops, func(o Op) bool { return o.Kind == Wipe && o.Return >= from && o.Call <= to }) {
					continue
				}
				found = append(found, Violation{"turns", name, "a reader was let in before a writer that had waited since " +
					time.Duration(from).String(), []Op{q, *r}, nil})
			}
		}
	}
	return found
}

// kept is for how long the place of a writer that waits counts without a word of it.
const kept = 5 * time.Second

// leftAt is until when the Lock waited that an attempt was made for, at least.
func leftAt(ops []Op, q Op) int64 {
	at := q.Return
	for i := range ops {
		o := &ops[i]
		switch {
		case o.Kind == Crash && o.Client == q.Client && o.Return >= q.Call:
			return min(at, o.Call)
		case o.Client == q.Client && o.Actor == q.Actor && o.waitsToWrite() && o.Call <= q.Call && o.Return >= q.Return:
			at = o.Return
			if o.Result == OK { // granted some time in its last attempt, which may have begun just after this one
				at = max(q.Return, lastAttempt(ops, o).Call)
			}
		}
	}
	return at
}

// lastAttempt is the last one that was made for a Lock.
func lastAttempt(ops []Op, lock *Op) (last *Op) {
	last = new(Op)
	for i := range ops {
		o := &ops[i]
		if o.Kind == Queue && o.Client == lock.Client && o.Actor == lock.Actor && o.Call >= lock.Call && o.Return <= lock.Return {
			last = o
		}
	}
	return last
}

// meetsWrite reports whether another than the waiter may have written during a reader's call: whom it let go first, or itself.
func meetsWrite(all []tenure, q, r Op) bool {
	return slices.ContainsFunc(all, func(t tenure) bool {
		waited := t.op.Client == q.Client && t.op.Actor == q.Actor && t.op.Call <= q.Call && t.op.Return >= q.Return
		if t.op.Shared || waited {
			return false
		}
		return t.op.Call <= r.Return && t.released >= r.Call
	})
}

// readWriteWakeUps is [WakeUps] of readers and writers. A writer waits for all, a reader for those who write, or wait to write.
func readWriteWakeUps(ops []Op, c Config) []Violation {
	return c.sleepers(ops, func(ops []Op, o Op) []Window {
		if !o.Shared {
			return occupied(ops, c)
		}
		busy := occupied(writers(ops), c)
		for _, w := range ops {
			if w.waitsToWrite() {
				gone := w.Return
				if gone == Forever {
					gone = died(w, ops).To
				}
				if w.Result != OK || c.troubled(w) {
					gone = after(gone, kept+kept/2) // nobody says that a place has ended whose writer died
				}
				busy = append(busy, Window{w.Call, gone})
			}
		}
		return sorted(busy)
	})
}

// readWrite is the state of a reentrant read-write lock as the model has it.
type readWrite struct {
	writer, readers holders // one who writes; an owner that writes may be among the readers
	token           uint64  // of the last write
}

// side is the one that an operation is of.
func (s *readWrite) side(o *Op) *holders {
	if o.Shared {
		return &s.readers
	}
	return &s.writer
}

// admits reports whether an owner may be granted a side.
func (s *readWrite) admits(o *Op) bool {
	if o.Shared {
		return s.writer == "" || s.writer.owned(o.Owner) > 0
	}
	return s.writer == "" && s.readers == ""
}

// lockModel is a reentrant read-write lock with expiry. Any other lock is one that nobody reads. A read has the token of the
// last write, or a greater one where that was forgotten, or was of a write that nobody knows of: readTokens knows more of that.
var lockModel = porcupine.Model{
	Init: func() any { return readWrite{} },
	Step: func(state, in, _ any) (bool, any) {
		s, i := state.(readWrite), in.(input)
		o := &i.op
		side, id := s.side(o), i.id
		n := side.count(id)
		switch i.step {
		case grant:
			if !s.admits(o) || o.Token < s.token || !o.Shared && o.Token == s.token {
				return false, s
			}
			*side, s.token = side.with(id, 1), o.Token
		case refuse: // nobody knows as whom it asked
			return s.writer != "" || !o.Shared && s.readers != "", s
		case reenter:
			*side = side.with(id, n+1)
			return n > 0, s
		case leave:
			*side = side.with(id, max(n-1, 0))
			return n > 1, s
		case stay:
			return n > 0, s
		case settle:
			if n > 1 {
				*side = side.with(id, n-1)
			}
		case release:
			*side = side.with(id, 0)
			return n > 0, s
		case expire:
			*side = side.with(id, 0)
		case look:
			return n > 0 && n == o.Depth, s
		case free:
			s.writer, s.readers = "", ""
		}
		return true, s
	},
	DescribeOperation: func(in, _ any) string { return describe(in.(input)) },
	DescribeState: func(state any) string {
		s := state.(readWrite)
		if s.writer+s.readers == "" {
			return "free"
		}
		return fmt.Sprintf("has it: %s, read: %s", s.writer.describe(), s.readers.describe())
	},
}

// describe is an operation in a picture.
func describe(i input) string {
	o := i.op
	side := ""
	if o.Of == ReadWrite {
		side = " to write"
	}
	if o.Shared {
		side = " to read"
	}
	switch i.step {
	case expire:
		return "expires" + side + ": " + short(o.Owner)
	case refuse, free:
		return string(o.Kind) + side + ": " + string(o.Result)
	case look:
		return fmt.Sprintf("state: %s x%d", short(o.Owner), o.Depth)
	default:
		return fmt.Sprintf("%s%s %s #%d x%d", o.Kind, side, short(o.Owner), o.Token%1e9, o.Depth)
	}
}

func linearReadWrite(ops []Op, c Config) []Violation {
	return linearize(ops, c, lockModel, func(ops []Op) sequence {
		return slices.DeleteFunc(steps(ops, c), func(o porcupine.Operation) bool {
			i := o.Input.(input)
			return i.step == refuse && i.op.Shared && c.writerWaits(ops, i.op)
		})
	})
}

// writerWaits reports whether somebody may have waited to write while one who wanted to read was refused.
func (c *Config) writerWaits(ops []Op, r Op) bool {
	return slices.ContainsFunc(ops, func(o Op) bool {
		return o.waitsToWrite() && o.Call <= r.Return && after(o.Return, kept+kept/2+c.Late) >= r.Call
	})
}
