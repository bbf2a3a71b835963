package redisson

import (
	"cmp"
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

// changes are what a storm's history is changed by, one of each check of the kinds that are not
// reentrant locks of one holder.
var changes = []change{
	{"a writer is trusted into the next one's grant", rwNames[0], func(s *changed) []string {
		w := s.find(func(o history.Op) bool { return s.granted(o) && !o.Shared && o.Guest })
		s.add(*w, w.Call, w.Return, func(o *history.Op) { o.Owner += "0"; o.Token++ })
		return []string{"exclusion"}
	}},
	{"two writes with one token", rwNames[0], func(s *changed) []string {
		w := s.find(func(o history.Op) bool { return s.granted(o) && !o.Shared && o.Guest })
		s.add(*w, s.end(), s.end()+1, func(o *history.Op) { o.Owner += "0" })
		return []string{"tokens"}
	}},
	{"a reader has the token of no write", rwNames[0], func(s *changed) []string {
		r := s.find(func(o history.Op) bool { return s.granted(o) && o.Shared && o.Guest })
		s.add(*r, s.end(), s.end()+1, func(o *history.Op) { o.Token, o.Owner = 1, o.Owner+"0" })
		return []string{"read token"}
	}},
	{"a reader of Redisson's has one entry more", rwNames[0], s1more},
	{"one that reads is not refused to write", rwNames[0], func(s *changed) []string {
		r := s.find(func(o history.Op) bool { return s.granted(o) && o.Shared && !o.Guest })
		s.add(*r, r.Return+1, r.Return+2, func(o *history.Op) { o.Kind, o.Result = history.Upgrade, history.Left })
		return []string{"upgrade"}
	}},
	{"a reader of ours is let in before a writer", rwNames[0], func(s *changed) []string {
		at := s.start()
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
		p := s.find(func(o history.Op) bool { return s.granted(o) && o.Guest })
		s.add(*p, p.Return, p.Return+1, func(o *history.Op) { o.Grant, o.Depth, o.Total = 1<<30, 2*stormPermits, 2*stormPermits })
		return []string{"permits", "linearizability"}
	}},
	{"ours has the token of another", permitNames[0], func(s *changed) []string {
		p := s.find(func(o history.Op) bool { return s.granted(o) && !o.Guest })
		s.add(*p, s.end(), s.end()+1, func(o *history.Op) { o.Grant = 1 << 30 })
		return []string{"tokens"}
	}},
	{"ours has no token", permitNames[0], func(s *changed) []string {
		p := s.find(func(o history.Op) bool { return s.granted(o) && !o.Guest })
		p.Token = 0
		return []string{"tokens", "linearizability"}
	}},
	{"one is refused though all are free", permitNames[0], func(s *changed) []string {
		at := s.start()
		s.add(history.Op{Of: history.Permits, Kind: history.Try, Client: 90, Actor: 900, Total: 1}, at, at+1,
			func(o *history.Op) { o.Result = history.Denied })
		return []string{"linearizability"}
	}},
	{"one is lost", permitNames[0], func(s *changed) []string {
		c := s.find(func(o history.Op) bool { return o.Kind == history.State && o.Last })
		c.Depth--
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
	{"a count is wrong", latchNames[0], func(s *changed) []string {
		c := s.find(func(o history.Op) bool { return o.Kind == history.Look && o.Client >= theirsFirst })
		c.Depth += 9
		return []string{"linearizability"}
	}},
	{"a count-down of Redisson's counts twice", latchNames[0], func(s *changed) []string {
		at := s.end()
		latch := history.Op{Of: history.Latches, Client: 90, Actor: 900}
		for i, o := range []history.Op{{Kind: history.Delete}, {Kind: history.Set, Depth: 3}, {Kind: history.CountDown, Depth: -1, Guest: true},
			{Kind: history.Look, Depth: 1}} {
			s.add(latch, at+int64(10*i), at+int64(10*i)+1, func(to *history.Op) { to.Kind, to.Depth, to.Guest = o.Kind, o.Depth, o.Guest })
		}
		s.ops[len(s.ops)-4].Kind = history.Wipe // open, or not
		return []string{"linearizability"}
	}},
	{"one who waits for an open latch sleeps on", latchNames[0], func(s *changed) []string {
		at := s.end()
		latch := history.Op{Of: history.Latches, Client: 90, Actor: 900}
		s.add(latch, at, at+1, func(o *history.Op) { o.Kind = history.Look })
		s.add(latch, at+10, at+2*int64(stormBound), func(o *history.Op) { o.Kind = history.Wait })
		return []string{"wake-up"}
	}},
}

// s1more has an answer of Redisson's say more.
func s1more(s *changed) []string {
	c := s.find(func(o history.Op) bool { return o.Kind == history.State && o.Guest && o.Result == history.OK })
	c.Depth++
	return []string{"linearizability"}
}

// changed is the history of a name that is being changed.
type changed struct {
	*testing.T
	name string
	ops  []history.Op
}

// granted reports whether an operation got a grant.
func (s *changed) granted(o history.Op) bool {
	return (o.Kind == history.Lock || o.Kind == history.Try) && o.Result == history.OK
}

// find is an operation from the middle of what was before a process was killed, which excuses much; if
// there is none, of what was after it.
func (s *changed) find(which func(history.Op) bool) *history.Op {
	s.Helper()
	killed := slices.IndexFunc(s.ops, func(o history.Op) bool { return o.Kind == history.Crash })
	var at, later []int
	for i, o := range s.ops {
		switch {
		case o.Name == "" || o.Client == doomedClient || !which(o):
		case o.Return < s.ops[killed].Call:
			at = append(at, i)
		default:
			later = append(later, i)
		}
	}
	if at == nil {
		at = later
	}
	require.NotEmpty(s, at, "nothing to be changed")
	return &s.ops[at[len(at)/2]]
}

// end is long after all that has happened, so that nothing of it is an excuse.
func (s *changed) end() int64 {
	last := slices.MaxFunc(s.ops, func(a, b history.Op) int { return cmp.Compare(closing(a), closing(b)) })
	return closing(last) + int64(time.Hour)/2
}

// start is long before all of it. After the end one whose process was killed may have been granted
// something, and that is an excuse for others.
func (s *changed) start() int64 { return -int64(time.Hour) }

func closing(o history.Op) int64 {
	if o.Return == history.Forever {
		return o.Call
	}
	return o.Return
}

// add adds an operation like another.
func (s *changed) add(like history.Op, from, to int64, differs func(*history.Op)) {
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
		cfg.Limit = time.Second // but what is not decided does not count
		found := history.Check(s.ops, cfg)
		for _, check := range checks {
			require.True(t, slices.ContainsFunc(found, func(v history.Violation) bool {
				return v.Check == check && !strings.Contains(v.Text, "not decided")
			}),
				"%s: %q does not find it; %d others", c.what, check, len(found))
		}
	}
}
