package history

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

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

// lockModel is a reentrant read-write lock with expiry. Any other lock is one that nobody reads. A read has the
// token of the last write, or a greater one where that was forgotten, or was of a write that nobody knows of:
// readTokens knows more of that.
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
