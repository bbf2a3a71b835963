package redisson

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// change makes something wrong of the history of one name, and returns the checks that are to find
// it. None: there is nothing in it to be changed.
type change struct {
	what string
	name string
	make func(s *changed) (checks []string)
}

// changes are what a storm's history is changed by, for each check of the kinds that are not reentrant
// locks of one holder.
var changes = []change{
	{"a writer is trusted into the next one's grant", rwNames[0], func(s *changed) []string {
		s.holds(0, 30, history.Op{Of: history.ReadWrite, Guest: true, Token: 1})
		s.holds(10, 40, history.Op{Of: history.ReadWrite, Token: 2})
		return []string{"exclusion", "linearizability"}
	}},
	{"two writes with one token", rwNames[0], func(s *changed) []string {
		s.holds(0, 10, history.Op{Of: history.ReadWrite, Guest: true, Token: 1})
		s.holds(20, 30, history.Op{Of: history.ReadWrite, Token: 1})
		return []string{"tokens", "linearizability"}
	}},
	{"a reader has an older token", rwNames[0], func(s *changed) []string {
		s.holds(0, 10, history.Op{Of: history.ReadWrite, Token: 2})
		s.holds(20, 30, history.Op{Of: history.ReadWrite, Shared: true, Guest: true, Token: 1})
		return []string{"read token", "linearizability"}
	}},
	{"a reader of Redisson's has one entry more", rwNames[0], func(s *changed) []string {
		o := s.holds(0, 30, history.Op{Of: history.ReadWrite, Shared: true, Guest: true, Token: 1})
		s.add(o, 10, 11, func(o *history.Op) { o.Kind, o.Seen, o.Depth = history.State, o.Owner, 2 })
		return []string{"linearizability"}
	}},
	{"one that reads is not refused to write", rwNames[0], func(s *changed) []string {
		o := s.holds(0, 30, history.Op{Of: history.ReadWrite, Shared: true, Token: 1})
		s.add(o, 10, 11, func(o *history.Op) { o.Kind, o.Result = history.Upgrade, history.Left })
		return []string{"upgrade"}
	}},
	{"a reader of ours is let in before a writer", rwNames[0], func(s *changed) []string {
		at := int64(0)
		w := history.Op{Of: history.ReadWrite, Kind: history.Lock, Client: 90, Actor: 900, Owner: "w", Token: 2}
		s.add(w, at, at+int64(4*time.Second), nil)
		s.add(w, at+1, at+2, func(o *history.Op) { o.Kind = history.Queue })
		s.add(w, at+int64(4*time.Second)-2, at+int64(4*time.Second)-1, func(o *history.Op) { o.Kind, o.Result = history.Queue, history.Denied })
		s.add(w, at+10, at+11, func(o *history.Op) { o.Actor, o.Owner, o.Token, o.Shared = 901, "r", 1, true })
		return []string{"turns"}
	}},
	{"a reader sleeps on", rwNames[0], func(s *changed) []string { return s.sleeper(history.ReadWrite, true) }},
	{"a writer sleeps on", rwNames[0], func(s *changed) []string { return s.sleeper(history.ReadWrite, false) }},
	{"more are out than there are", permitNames[0], func(s *changed) []string {
		s.holds(0, 30, history.Op{Of: history.Permits, Guest: true, Depth: stormPermits, Total: stormPermits})
		s.holds(10, 40, history.Op{Of: history.Permits, Token: 1, Depth: 1, Total: 1})
		return []string{"permits", "linearizability"}
	}},
	{"ours have one token", permitNames[0], func(s *changed) []string {
		s.holds(0, 30, history.Op{Of: history.Permits, Token: 1, Depth: 1, Total: 1})
		s.holds(10, 40, history.Op{Of: history.Permits, Token: 1, Depth: 1, Total: 1})
		return []string{"tokens", "linearizability"}
	}},
	{"ours has no token", permitNames[0], func(s *changed) []string {
		s.holds(0, 30, history.Op{Of: history.Permits, Depth: 1, Total: 1})
		return []string{"linearizability"}
	}},
	{"one is refused though all are free", permitNames[0], func(s *changed) []string {
		s.add(history.Op{Of: history.Permits, Kind: history.Try, Client: 90, Actor: 900, Total: 1}, 0, 1,
			func(o *history.Op) { o.Result = history.Denied })
		return []string{"linearizability"}
	}},
	{"one is lost", permitNames[0], func(s *changed) []string {
		at := slices.IndexFunc(s.ops, func(o history.Op) bool { return o.Kind == history.State && o.Last })
		s.ops[at].Depth--
		return []string{"lost permits"}
	}},
	{"one of ours goes before one that stands in the queue", permitNames[0], func(s *changed) []string {
		at := s.end()
		one := history.Op{Of: history.Permits, Kind: history.Lock, Client: 90, Actor: 900, Owner: "a", Token: 1<<60 + 1, Depth: 1, Total: 1}
		s.add(one, at, at+100, nil)
		s.add(one, at+1, at+2, func(o *history.Op) { o.Kind = history.Queue })
		s.add(one, at+10, at+50, func(o *history.Op) { o.Client, o.Actor, o.Owner, o.Token = 91, 901, "b", 1<<60 })
		return []string{"fifo"}
	}},
	{"one who waits for permits sleeps on", permitNames[0], func(s *changed) []string { return s.sleeper(history.Permits, false) }},
	{"a latch is not open that nobody has set", latchNames[0], func(s *changed) []string {
		s.add(history.Op{Of: history.Latches, Client: 90, Actor: 900, Kind: history.Look, Depth: 1}, 0, 1, nil)
		return []string{"linearizability"}
	}},
	{"a count-down of Redisson's counts twice", latchNames[0], func(s *changed) []string {
		latch := history.Op{Of: history.Latches, Client: 90, Actor: 900}
		for i, o := range []history.Op{{Kind: history.Set, Depth: 3}, {Kind: history.CountDown, Depth: -1, Guest: true},
			{Kind: history.Look, Depth: 1}, {Kind: history.Delete}} {
			s.add(latch, int64(10*i), int64(10*i)+1, func(to *history.Op) { to.Kind, to.Depth, to.Guest = o.Kind, o.Depth, o.Guest })
		}
		return []string{"linearizability"}
	}},
	{"one who waits for an open latch sleeps on", latchNames[0], func(s *changed) []string {
		latch := history.Op{Of: history.Latches, Client: 90, Actor: 900} // before all: a Set without an answer may come at any time
		s.add(latch, 0, 1, func(o *history.Op) { o.Kind = history.Look })
		s.add(latch, 10, 2*int64(stormBound), func(o *history.Op) { o.Kind = history.Wait })
		return []string{"wake-up"}
	}},
}

// changed is the history of a name that is being changed.
type changed struct {
	*testing.T
	name string
	ops  []history.Op
}

// end is long after all that has happened, so that nothing of it is an excuse.
func (s *changed) end() int64 {
	last := slices.MaxFunc(s.ops, func(a, b history.Op) int { return cmp.Compare(closing(a), closing(b)) })
	return closing(last) + int64(time.Hour)/2
}

// before is when changes begin that are made in front of all that has happened: nothing of it is an
// excuse there, while after the end one whose process was killed may have been granted something.
const before = -int64(time.Hour)

func closing(o history.Op) int64 {
	if o.Return == history.Forever {
		return o.Call
	}
	return o.Return
}

// holds adds a grant and its end, and returns what they have in common.
func (s *changed) holds(from, to int64, o history.Op) history.Op {
	o.Client, o.Actor = 90, 900+len(s.ops)
	o.Owner, o.Grant = fmt.Sprint("z:", o.Actor), o.Actor
	s.add(o, from, from+1, func(o *history.Op) { o.Kind = history.Lock })
	s.add(o, to, to+1, func(o *history.Op) { o.Kind, o.Last = history.Unlock, true })
	return o
}

// add adds an operation like another, at a time after [before] or, if it is later than all that has
// happened, at that.
func (s *changed) add(like history.Op, from, to int64, differs func(*history.Op)) {
	if from < int64(time.Minute) {
		from, to = before+from, before+to
	}
	like.Name, like.Call, like.Return, like.Result = s.name, from, to, history.OK
	if differs != nil {
		differs(&like)
	}
	s.ops = append(s.ops, like)
}

// sleeper adds one that waits though nobody has anything.
func (s *changed) sleeper(of history.Family, shared bool) []string {
	at := s.end()
	s.add(history.Op{Of: of, Shared: shared, Kind: history.Lock, Client: 90, Actor: 900, Owner: "z", Token: 1 << 60, Depth: 1, Total: 1},
		at, at+2*int64(stormBound), nil)
	return []string{"wake-up"}
}

// refuses checks that the checks find what is changed in the history of a storm that they did not
// object to.
func (st *storm) refuses(t *testing.T, ops []history.Op) {
	t.Helper()
	for _, c := range changes {
		s := &changed{T: t, name: c.name}
		for _, o := range ops {
			if o.Name == c.name || o.Name == "" {
				s.ops = append(s.ops, o)
			}
		}
		checks := c.make(s)
		cfg := st.config()
		cfg.Limit = 20 * time.Second // but what is not decided does not count
		found := history.Check(s.ops, cfg)
		for _, check := range checks {
			require.True(t, slices.ContainsFunc(found, func(v history.Violation) bool {
				return v.Check == check && !strings.Contains(v.Text, "not decided")
			}),
				"%s: %q does not find it; %d others", c.what, check, len(found))
		}
	}
}
