package history

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const lease = 100 // ns, which is all that these histories take

// story writes histories: each operation is called when the one before it has returned, one
// nanosecond later, unless it says otherwise.
type story struct {
	ops []Op
	now int64
}

func (s *story) add(o Op) *story {
	if o.Name == "" && o.Kind != Crash {
		o.Name = "a"
	}
	if o.Call == 0 {
		s.now++
		o.Call = s.now
	}
	if o.Return == 0 {
		s.now = max(s.now, o.Call) + 1
		o.Return = s.now
	}
	if o.Return != Forever {
		s.now = max(s.now, o.Return)
	}
	s.ops = append(s.ops, o)
	return s
}

func (s *story) lock(owner string, token uint64) *story {
	return s.add(Op{Kind: Lock, Owner: owner, Token: token, Result: OK})
}

func (s *story) unlock(owner string, token uint64) *story {
	return s.add(Op{Kind: Unlock, Owner: owner, Token: token, Last: true, Result: OK})
}

func (s *story) inner(kind Kind, owner string, token uint64) *story {
	return s.add(Op{Kind: kind, Owner: owner, Token: token, Result: OK})
}

func (s *story) count(owner string, token uint64, depth int) *story {
	return s.add(Op{Kind: State, Owner: owner, Token: token, Depth: depth, Result: OK})
}

// checks are the names of the checks that a history fails, each once.
func checks(ops []Op, faults ...Window) (failed []string) {
	seen := map[string]bool{}
	for _, v := range Check(ops, Config{Lease: lease, Bound: 10, Recovery: 5, Faults: faults}) {
		if !seen[v.Check] {
			failed = append(failed, v.Check)
		}
		seen[v.Check] = true
	}
	return failed
}

func TestGoodHistories(t *testing.T) {
	for what, s := range map[string]*story{
		"one after the other": new(story).lock("a", 1).unlock("a", 1).lock("b", 2).unlock("b", 2),
		"re-entered": new(story).lock("a", 1).inner(Reenter, "a", 1).count("a", 1, 2).inner(Unlock, "a", 1).
			count("a", 1, 1).unlock("a", 1).lock("b", 2),
		"a waiter is granted it while it is being released": new(story).lock("a", 1).
			add(Op{Kind: Lock, Owner: "b", Token: 2, Result: OK, Call: 3, Return: 9}).
			add(Op{Kind: Unlock, Owner: "a", Token: 1, Last: true, Result: OK, Call: 5, Return: 10}),
		"refused while held": new(story).lock("a", 1).add(Op{Kind: Try, Result: Denied}).unlock("a", 1),
		"a crash, then the lease is over": new(story).lock("a", 1).add(Op{Kind: Crash}).
			add(Op{Client: 1, Kind: Lock, Owner: "b", Token: 2, Result: OK, Call: 5, Return: 110}),
		"lost, then another's": new(story).lock("a", 1).
			add(Op{Kind: End, Owner: "a", Token: 1, Result: Lost, Call: 50, Return: 50, Deadline: 50}).lock("b", 2),
		"an unlock that nobody answered, which counts some time": new(story).lock("a", 1).
			add(Op{Kind: Unlock, Owner: "a", Token: 1, Last: true, Result: Unknown}).add(Op{Kind: Try,
			Result: Denied}).lock("b", 2),
		"a refusal by a grant that nobody knows of": new(story).add(Op{Kind: Lock, Result: Left, Error: "cancelled"}).
			add(Op{Kind: Try, Result: Denied}),
		"data lost, two inside until the first one ends": new(story).lock("a", 1).add(Op{Kind: Wipe, Result: OK}).
			add(Op{Kind: End, Owner: "a", Token: 1, Result: Lost}).lock("b", 2),
	} {
		require.Empty(t, checks(s.ops), what)
	}
}

// Each check finds what it is there for.
func TestBadHistories(t *testing.T) {
	for _, c := range []struct {
		what  string
		wants []string
		s     *story
	}{
		{"two inside", []string{"exclusion", "linearizability"},
			new(story).lock("a", 1).lock("b", 2).unlock("a", 1).unlock("b", 2)},
		{"two inside, the first one's end comes by its context", []string{"exclusion"},
			new(story).lock("a", 1).add(Op{Kind: Wipe, Result: OK}).
				lock("b", 2).add(Op{Kind: End, Owner: "a", Token: 1, Result: Lost, Deadline: 90})},
		{"an old token", []string{"tokens", "linearizability"},
			new(story).lock("a", 2).unlock("a", 2).lock("b", 1).unlock("b", 1)},
		{"a token twice", []string{"tokens", "linearizability"}, new(story).lock("a", 1).unlock("a", 1).lock("b", 1)},
		{"a re-entry that counted twice", []string{"linearizability"},
			new(story).lock("a", 1).inner(Reenter, "a", 1).count("a", 1, 3)},
		{"an inner unlock that freed it", []string{"linearizability"}, new(story).lock("a", 1).inner(Reenter, "a", 1).
			inner(Unlock, "a", 1).count("a", 1, 0)},
		{"refused while free", []string{"linearizability"},
			new(story).lock("a", 1).unlock("a", 1).add(Op{Kind: Try, Result: Denied})},
		{"an unlock that freed another's", []string{"exclusion", "linearizability"}, new(story).lock("a", 1).
			add(Op{Kind: End, Owner: "a", Token: 1, Result: Lost}).lock("b", 2).unlock("a", 1).lock("c", 3)},
		{"a waiter that slept on", []string{"wake-up"}, new(story).lock("a", 1).
			add(Op{Kind: Lock, Owner: "b", Token: 2, Result: OK, Call: 3, Return: 50}).
			add(Op{Kind: Unlock, Owner: "a", Token: 1, Last: true, Result: OK, Call: 5, Return: 6})},
	} {
		require.Equal(t, c.wants, checks(c.s.ops), c.what)
	}
}

// TestFaultsExcuse: the same late wake-up, during a fault.
func TestFaultsExcuse(t *testing.T) {
	s := new(story).lock("a", 1).
		add(Op{Kind: Lock, Owner: "b", Token: 2, Result: OK, Call: 3, Return: 50}).
		add(Op{Kind: Unlock, Owner: "a", Token: 1, Last: true, Result: OK, Call: 5, Return: 6})
	require.Empty(t, checks(s.ops, Window{4, 40}))
	require.Equal(t, []string{"wake-up"}, checks(s.ops, Window{4, 30}))

	// The lock of data that was lost is its owner's all the same if another attempt to get it came
	// later.
	kept := new(story).lock("a", 1).add(Op{Kind: Wipe, Result: OK}).unlock("a", 1).lock("b", 2)
	require.Empty(t, checks(kept.ops, Window{1, 2}))
	require.Equal(t, []string{"linearizability"}, checks(kept.ops))

	// Meanwhile another may have had it, whose reply was lost: its client was disturbed, and not
	// the one that waited.
	s.add(Op{Client: 1, Actor: 1, Kind: Lock, Owner: "c", Token: 3, Result: OK, Call: 5, Return: 60})
	c := Config{Lease: lease, Bound: 10, Recovery: 5}
	require.NotEmpty(t, WakeUps(s.ops, c))
	c.Local = map[int][]Window{1: {{1, 40}}}
	require.Empty(t, WakeUps(s.ops, c))

	// A re-entry that was sent twice, and arrived once more after the unlock that followed.
	s = new(story).lock("a", 1).inner(Reenter, "a", 1).inner(Unlock, "a", 1).count("a", 1, 2)
	require.Empty(t, checks(s.ops, Window{3, 3}))
	require.Equal(t, []string{"linearizability"}, checks(s.ops))

	// Granted at first and never told, so that it blocked others until its lease was over; granted
	// again after another.
	s = new(story).add(Op{Kind: Lock, Owner: "a", Token: 2, Result: OK, Call: 1, Return: 120}).
		add(Op{Actor: 1, Kind: Try, Result: Denied, Call: 10, Return: 11}).
		add(Op{Actor: 1, Kind: Lock, Owner: "b", Token: 1, Result: OK, Call: 110, Return: 111}).
		add(Op{Actor: 1, Kind: Unlock, Owner: "b", Token: 1, Last: true, Result: OK, Call: 112, Return: 113})
	require.Empty(t, checks(s.ops, Window{1, 110}))
	require.Equal(t, []string{"linearizability", "wake-up"}, checks(s.ops))
}

func TestRecorderStreamsWhatItRecords(t *testing.T) {
	now := int64(0)
	r := NewRecorder(func() int64 { now++; return now })
	var out bytes.Buffer
	r.Stream(&out)
	call := r.Begin(Op{Client: 1, Name: "a", Kind: Lock})
	r.Begin(Op{Client: 1, Actor: 1, Name: "a", Kind: Lock})
	call.End(func(o *Op) { o.Result, o.Owner, o.Token = OK, "x", 7 })
	r.Crash(1)
	r.Begin(Op{Client: 1}).End(func(*Op) { t.Error("a dead client does nothing") })
	require.NoError(t, r.Err())
	want := []Op{
		{Client: 1, Name: "a", Kind: Lock, Owner: "x", Token: 7, Call: 1, Return: 3, Result: OK},
		{Client: 1, Actor: 1, Name: "a", Kind: Lock, Call: 2, Return: Forever, Result: Unknown},
		{Client: 1, Kind: Crash, Call: 4, Return: 5, Result: OK},
	}
	require.Equal(t, want, r.Ops())
	read, err := Read(bytes.NewReader(out.Bytes()))
	require.NoError(t, err)
	require.Equal(t, want, read)

	read, err = Read(bytes.NewReader(out.Bytes()[:out.Len()-3]))
	require.NoError(t, err)
	require.Equal(t, Forever, read[2].Return, "the line that was cut off is left out")
	_, err = Read(bytes.NewReader([]byte("nonsense\n")))
	require.Error(t, err)
}

// failures is a testing.TB that only remembers.
type failures []string

func (f *failures) Helper() {}
func (f *failures) Errorf(format string, args ...any) {
	*f = append(*f, fmt.Sprintf(format, args...))
}

// TestReport: a violation leaves its picture and its history, and says how to see it again.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(DirEnv, dir)
	s := new(story).lock("a", 1).lock("b", 2)
	var f failures
	Report(&f, Linearizable(s.ops, Config{Lease: lease}), "make chaos SEED=7")
	require.Len(t, f, 1)
	require.Contains(t, f[0], "SEED=7")
	pages, err := filepath.Glob(filepath.Join(dir, "*", "history.html"))
	require.NoError(t, err)
	require.Len(t, pages, 1)
	page, err := os.ReadFile(pages[0])
	require.NoError(t, err)
	require.Contains(t, string(page), "<html")

	f = nil
	Report(&f, Linearizable(new(story).lock("a", 1).ops, Config{Lease: lease}), "")
	require.Empty(t, f)
}

// TestMerge: each recorder counts its own actors.
func TestMerge(t *testing.T) {
	all := Merge([]Op{{Actor: 0}, {Actor: 1}}, []Op{{Actor: 0}, {Actor: 0}})
	require.Equal(t, []int{0, 1, 2, 2}, []int{all[0].Actor, all[1].Actor, all[2].Actor, all[3].Actor})
}

// TestCrashIsATime: who was killed some time between two moments may have lost the lock since the
// first, and may have taken it until the second.
func TestCrashIsATime(t *testing.T) {
	crashed := func(from int64) []Op {
		s := new(story).add(Op{Kind: Lock, Owner: "a", Token: 1, Result: OK, Call: 2, Return: 3})
		s.add(Op{Client: 1, Kind: Lock, Owner: "b", Token: 2, Result: OK, Call: 5, Return: 110})
		return s.add(Op{Kind: Crash, Call: from, Return: 120}).ops
	}
	require.Empty(t, checks(crashed(100)))
	require.Empty(t, checks(crashed(1)), "it began before the grant")
	require.Contains(t, checks(crashed(115)), "linearizability")
}

// TestLateNews: a process that was paused tells of its end late. Its hold ended at its deadline.
func TestLateNews(t *testing.T) {
	for _, kind := range []Kind{End, Unlock} {
		news := func(deadline int64) []Op {
			return new(story).lock("a", 1).
				add(Op{Client: 1, Kind: Lock, Owner: "b", Token: 2, Result: OK, Call: 5, Return: 110}).
				add(Op{Kind: kind, Owner: "a", Token: 1, Last: true, Result: Lost, Call: 200, Return: 201,
					Deadline: deadline}).ops
		}
		require.Empty(t, checks(news(100)), kind)
		require.Equal(t, []string{"exclusion", "linearizability"}, checks(news(150)), kind)
	}
}

func TestTrust(t *testing.T) {
	lost := Op{Client: 1, Name: "a", Kind: End, Owner: "a", Token: 1, Result: Lost, Call: 200, Return: 201,
		Deadline: 100}
	require.Len(t, Trust([]Op{lost}, 50, nil, nil), 1, "too late")
	require.Empty(t, Trust([]Op{lost}, 100, nil, nil), "late, but as a busy machine is")
	require.Empty(t, Trust([]Op{lost}, 50, map[int][]Window{1: {{90, 150}}}, nil), "it was paused")
	require.Len(t, Trust([]Op{lost}, 50, map[int][]Window{2: {{90, 150}}}, nil), 1, "another was paused")
	lost.Deadline = 250
	require.Len(t, Trust([]Op{lost}, 50, nil, nil), 1, "too early")
	require.Empty(t, Trust([]Op{lost, {Name: "a", Kind: Wipe}}, 50, nil, nil), "early, because the data was lost")
	require.Empty(t, Trust([]Op{lost}, 50, nil, []Window{{lost.Call, lost.Call}}),
		"early, because a server lost its data")
	require.Len(t, Trust([]Op{lost}, 50, nil, []Window{{lost.Call + 1, lost.Call + 2}}), 1,
		"a server lost its data later")
	lost.Kind, lost.Return, lost.Result = Unlock, 210, OK
	require.Empty(t, Trust([]Op{lost}, 50, nil, nil), "unlocked in time")
	lost.Result = Lost
	require.Len(t, Trust([]Op{lost}, 50, nil, nil), 1, "an unlock that says lost without a reason")
}

func TestGivenUp(t *testing.T) {
	failed := Op{Name: "a", Kind: Unlock, Result: Unknown, Call: 10, Return: 20}
	require.Len(t, GivenUp([]Op{failed}, 50, nil), 1)
	require.Empty(t, GivenUp([]Op{failed}, 10, nil), "it took its time")
	require.Empty(t, GivenUp([]Op{failed}, 50, []Window{{15, 16}}), "it was refused")
	listens := failed
	listens.Error = "semaphore: cannot listen for the grant: OOM"
	require.Empty(t, GivenUp([]Op{listens}, 50, []Window{{failed.Call - 20, failed.Call - 10}}), "with one that was sent before it")
	require.Len(t, GivenUp([]Op{failed}, 50, []Window{{failed.Call - 20, failed.Call - 10}}), 1)
	closed := failed
	closed.Error = "unavailable: outcome unknown: client closed: EOF"
	require.Empty(t, GivenUp([]Op{closed}, 50, nil), "its client was closed")
	failed.Return = Forever
	require.Empty(t, GivenUp([]Op{failed}, 50, nil), "its process was killed")
}

// TestLocalFaults excuse the client that has them, and nobody else.
func TestLocalFaults(t *testing.T) {
	s := new(story).lock("a", 1).
		add(Op{Client: 2, Kind: Lock, Owner: "b", Token: 2, Result: OK, Call: 3, Return: 50}).
		add(Op{Kind: Unlock, Owner: "a", Token: 1, Last: true, Result: OK, Call: 5, Return: 6})
	require.Empty(t, Check(s.ops, Config{Lease: lease, Bound: 10, Recovery: 5, Local: map[int][]Window{2: {{4, 40}}}}))
	require.Len(t, Check(s.ops, Config{Lease: lease, Bound: 10, Recovery: 5, Local: map[int][]Window{1: {{4, 40}}}}), 1)
}

// TestLeftAtLast: that waiters leave, all at once at the end, does not hide that none of them was
// woken.
func TestLeftAtLast(t *testing.T) {
	s := new(story).lock("a", 1).unlock("a", 1)
	for actor := range 2 {
		s.add(Op{Client: 1, Actor: actor, Kind: Lock, Result: Left, Call: 3, Return: 17})
	}
	require.Equal(t, []string{"wake-up"}, checks(s.ops))
	require.Empty(t, checks(s.ops, Window{8, 9}))
}
