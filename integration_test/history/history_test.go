package history

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestHistories: each check finds what it is there for, and nothing else.
func TestHistories(t *testing.T) {
	judge(t, Locks, []row{
		{"one after the other", "lock a#1; unlock a#1; lock b#2; unlock b#2", ""},
		{"re-entered", "lock a#1; reenter a#1; state a#1 n2; leave a#1; state a#1 n1; unlock a#1; lock b#2", ""},
		{"a waiter is granted it while it is being released", "lock a#1; lock b#2 @3-9; unlock a#1 @5-10", ""},
		{"refused while held", "lock a#1; try denied; unlock a#1", ""},
		{"a crash, then the lease is over", "lock a#1; crash; 1: lock b#2 @5-110", ""},
		{"lost, then another's", "lock a#1; end a#1 lost @50-50 till50; lock b#2", ""},
		{"an unlock that nobody answered, which counts some time", "lock a#1; unlock a#1 unknown; try denied; lock b#2", ""},
		{"a refusal by a grant that nobody knows of", "lock left; try denied", ""},
		{"data lost, two inside until the first one ends", "lock a#1; wipe; end a#1 lost; lock b#2", ""},

		{"two inside", "lock a#1; lock b#2; unlock a#1; unlock b#2", "exclusion,linearizability"},
		{"two inside, the first one's end comes by its context", "lock a#1; wipe; lock b#2; end a#1 lost till90", "exclusion"},
		{"an old token", "lock a#2; unlock a#2; lock b#1; unlock b#1", "linearizability"},
		{"a token twice", "lock a#1; unlock a#1; lock b#1", "linearizability"},
		{"a re-entry that counted twice", "lock a#1; reenter a#1; state a#1 n3", "linearizability"},
		{"an inner unlock that freed it", "lock a#1; reenter a#1; leave a#1; state a#1 n0", "linearizability"},
		{"refused while free", "lock a#1; unlock a#1; try denied", "linearizability"},
		{"an unlock that freed another's", "lock a#1; end a#1 lost; lock b#2; unlock a#1; lock c#3", "exclusion,linearizability"},
		{"a waiter that slept on", slept, "wake-up"},
		// who was killed some time between two moments may have lost the lock since the first, and taken it until the second
		{"a crash some time", "lock a#1 @2-3; 1: lock b#2 @5-110; crash @100-120", ""},
		{"it began before the grant", "lock a#1 @2-3; 1: lock b#2 @5-110; crash @1-120", ""},
		{"or too late", "lock a#1 @2-3; 1: lock b#2 @5-110; crash @115-120", "exclusion,linearizability"},
		// a process that was paused tells of its end late; its hold ended at its deadline
		{"a late end", "lock a#1; 1: lock b#2 @5-110; end a#1 lost @200-201 till100", ""},
		{"of a later hold", "lock a#1; 1: lock b#2 @5-110; end a#1 lost @200-201 till150", "exclusion,linearizability"},
		{"a late unlock", "lock a#1; 1: lock b#2 @5-110; unlock a#1 lost @200-201 till100", ""},
		{"or of a later one", "lock a#1; 1: lock b#2 @5-110; unlock a#1 lost @200-201 till150", "exclusion,linearizability"},
		// that waiters leave, all at once at the end, does not hide that none of them was woken
		{"left at last", leftAtLast, "wake-up"},
	})
}

const (
	slept      = "lock a#1; 2: lock b#2 @3-50; unlock a#1 @5-6"
	leftAtLast = "lock a#1; unlock a#1; 1: lock left @3-17; 2: lock left @3-17"
)

// TestFaultsExcuse: what is a mistake otherwise may happen in a fault, of all or of the client.
func TestFaultsExcuse(t *testing.T) {
	for _, c := range []struct {
		ops           string
		excuse, close Window // the second is not enough
		fails         []string
	}{
		{slept, Window{4, 40}, Window{4, 30}, []string{"wake-up"}},
		{leftAtLast, Window{8, 9}, Window{30, 31}, []string{"wake-up"}},
		// The lock of data that was lost is its owner's all the same if another attempt to get it came later.
		{"lock a#1; wipe; unlock a#1; lock b#2", Window{1, 2}, Window{50, 50}, []string{"linearizability"}},
		// A re-entry that was sent twice, and arrived once more after the unlock that followed.
		{"lock a#1; reenter a#1; leave a#1; state a#1 n2", Window{3, 3}, Window{50, 50}, []string{"linearizability"}},
		// Granted at first and never told, so that it blocked others until its lease was over; granted again after another.
		{"lock a#2 @1-120; 1: try denied @10-11; 1: lock b#1 @110-111; 1: unlock b#1 @112-113", Window{1, 110}, Window{200, 200},
			[]string{"linearizability", "wake-up"}},
	} {
		ops := story(Locks, c.ops)
		require.Empty(t, checks(ops, c.excuse), c.ops)
		require.Equal(t, c.fails, checks(ops, c.close), c.ops)
	}
	local := func(ops string, client int) []Violation {
		return Check(story(Locks, ops), Config{Lease: lease, Bound: 10, Recovery: 5, Local: map[int][]Window{client: {{4, 40}}}})
	}
	require.Empty(t, local(slept, 2))
	require.Len(t, local(slept, 1), 1, "another's fault")
	// Meanwhile another may have had it, whose reply was lost: its client was disturbed, and not the one that waited.
	other := slept + "; 1: lock c#3 @5-60"
	c := Config{Lease: lease, Bound: 10, Recovery: 5}
	require.NotEmpty(t, WakeUps(story(Locks, other), c))
	c.Local = map[int][]Window{1: {{1, 40}}}
	require.Empty(t, WakeUps(story(Locks, other), c))
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

func (f *failures) Helper()                           {}
func (f *failures) Errorf(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// TestReport: a violation leaves its picture and its history, and says how to see it again.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(DirEnv, dir)
	var f failures
	Report(&f, Linearizable(story(Locks, "lock a#1; lock b#2"), Config{Lease: lease}), "make chaos SEED=7")
	require.Len(t, f, 1)
	require.Contains(t, f[0], "SEED=7")
	pages, err := filepath.Glob(filepath.Join(dir, "*", "history.html"))
	require.NoError(t, err)
	require.Len(t, pages, 1)
	page, err := os.ReadFile(pages[0])
	require.NoError(t, err)
	require.Contains(t, string(page), "<html")

	f = nil
	Report(&f, Linearizable(story(Locks, "lock a#1"), Config{Lease: lease}), "")
	require.Empty(t, f)
}

// TestMerge: each recorder counts its own actors.
func TestMerge(t *testing.T) {
	all := Merge([]Op{{Actor: 0}, {Actor: 1}}, []Op{{Actor: 0}, {Actor: 0}})
	require.Equal(t, []int{0, 1, 2, 2}, []int{all[0].Actor, all[1].Actor, all[2].Actor, all[3].Actor})
}

// TestTrust: how a hold ends that could be trusted until 100, or 250.
func TestTrust(t *testing.T) {
	pause := func(client int) Config { return Config{Slack: 50, Pauses: map[int][]Window{client: {{90, 150}}}} }
	lapse := func(from, to int64) Config { return Config{Slack: 50, Lapses: []Window{{from, to}}} }
	for _, c := range []struct {
		what, ops string
		config    Config
		wrong     int
	}{
		{"too late", "1: end a#1 lost @200-201 till100", Config{Slack: 50}, 1},
		{"late, but as a busy machine is", "1: end a#1 lost @200-201 till100", Config{Slack: 100}, 0},
		{"it was paused", "1: end a#1 lost @200-201 till100", pause(1), 0},
		{"another was paused", "1: end a#1 lost @200-201 till100", pause(2), 1},
		{"too early", "1: end a#1 lost @200-201 till250", Config{Slack: 50}, 1},
		{"early, because the data was lost", "1: end a#1 lost @200-201 till250; wipe", Config{Slack: 50}, 0},
		{"early, because a server lost its data", "1: end a#1 lost @200-201 till250", lapse(200, 200), 0},
		{"a server lost its data later", "1: end a#1 lost @200-201 till250", lapse(201, 202), 1},
		{"unlocked in time", "1: unlock a#1 @200-210 till250", Config{Slack: 50}, 0},
		{"an unlock that says lost without a reason", "1: unlock a#1 lost @200-210 till250", Config{Slack: 50}, 1},
	} {
		require.Len(t, Trust(story(Locks, c.ops), c.config), c.wrong, c.what)
	}
}

func TestGivenUp(t *testing.T) {
	for _, c := range []struct {
		what, ops string
		least     time.Duration
		refusal   Window
		wrong     int
	}{
		{"at once", "unlock unknown @100-110", 50, Window{}, 1},
		{"it took its time", "unlock unknown @100-110", 10, Window{}, 0},
		{"it was refused", "unlock unknown @100-110", 50, Window{105, 106}, 0},
		{"it was refused before", "unlock unknown @100-110", 50, Window{80, 90}, 1},
		{"with one that was sent before it", "unlock unknown error=semaphore:+cannot+listen+for+the+grant:+OOM @100-110", 50, Window{80, 90}, 0},
		{"its client was closed", "unlock unknown error=unavailable:+outcome+unknown:+client+closed:+EOF @100-110", 50, Window{}, 0},
		{"its repeat was answered", "unlock unknown error=the+lock+may+have+been+lost+before+it+was+released @100-110", 50, Window{}, 0},
		{"its process was killed", "unlock unknown @100-", 50, Window{}, 0},
	} {
		require.Len(t, GivenUp(story(Locks, c.ops), c.least, []Window{c.refusal}), c.wrong, c.what)
	}
}

const lease = 100 // ns, which is all that these histories take

// row is a history, and the checks that it fails.
type row struct{ what, ops, fails string }

// judge checks that each history fails the checks that it is to fail, and no other.
func judge(t *testing.T, f Family, rows []row) {
	for _, r := range rows {
		require.ElementsMatch(t, strings.FieldsFunc(r.fails, func(r rune) bool { return r == ',' }), checks(story(f, r.ops)), r.what)
	}
}

// checks are the names of the checks that a history fails, each once.
func checks(ops []Op, faults ...Window) (failed []string) {
	seen := map[string]bool{}
	for _, v := range Check(ops, Config{Lease: lease, Bound: 10, Recovery: 5, Permits: 3, Faults: faults}) {
		if !seen[v.Check] {
			failed = append(failed, v.Check)
		}
		seen[v.Check] = true
	}
	return failed
}

// story is a history of one name, in a line: operations of a family, apart by semicolons, such as
//
//	lock a#1; 1: lock b#2 @3-9; unlock a#1 @5-10
//
// Of each operation that is who, if not client and actor 0; its kind, where read is a lock to read, and
// leave an unlock that is not the last; its owner and token; and any of the words below. It is called when
// the one before it has returned, one nanosecond later, and goes well, unless it says otherwise.
func story(f Family, text string) (ops []Op) {
	now := int64(0)
	for one := range strings.SplitSeq(text, ";") {
		o := Op{Of: f, Name: "a", Result: OK}
		words := strings.Fields(one)
		if who, ok := strings.CutSuffix(words[0], ":"); ok {
			o.Client, words = atoi(who), words[1:]
			o.Actor = o.Client
		}
		switch o.Kind = Kind(words[0]); o.Kind {
		case "read":
			o.Kind, o.Shared = Lock, true
		case "leave":
			o.Kind = Unlock
		case Unlock:
			o.Last = true
		case Crash:
			o.Name = ""
		}
		for _, word := range words[1:] {
			o.say(word)
		}
		if f == Elections && o.Owner != "" {
			o.Value = cmp.Or(o.Value, "of "+o.Owner)
			if o.Kind == Told || o.Kind == Look {
				o.Seen, o.Owner = o.Owner, ""
			}
		}
		if o.Call == 0 {
			now++
			o.Call = now
		}
		if o.Return == 0 {
			now = max(now, o.Call) + 1
			o.Return = now
		}
		if o.Return != Forever {
			now = max(now, o.Return)
		}
		ops = append(ops, o)
	}
	return ops
}

// say puts down what a word says of an operation: a result; something that is so; @call-return, in nanoseconds, or in
// seconds with an s; an owner and a token; a number behind its sign, where x is both n and of, and none is for ever; or a
// text behind its sign and =, with + for spaces.
func (o *Op) say(word string) {
	sign := strings.TrimRight(word, "-0123456789")
	n := atoi(word[len(sign):])
	name, text, isText := strings.Cut(word, "=")
	texts := map[string]*string{"error": &o.Error, "value": &o.Value, "seen": &o.Seen, "asked": &o.Asked}
	flag := map[string]*bool{
		"read": &o.Shared, "guest": &o.Guest, "last": &o.Last, "plain": &o.Plain, "handed": &o.Handed,
		"outage": &o.Outage,
	}[word]
	count := map[string]*int{"n": &o.Depth, "of": &o.Total, "g": &o.Grant}[sign]
	time := map[string]*int64{"till": &o.Deadline, "lease": &o.Lease, "least": &o.Least, "keep": &o.Keep, "rest": &o.Left}[sign]
	switch from, to, _ := strings.Cut(strings.TrimPrefix(word, "@"), "-"); {
	case isText:
		*texts[name] = strings.ReplaceAll(text, "+", " ")
	case flag != nil:
		*flag = true
	case word[0] == '@':
		if o.Call, o.Return = moment(from), Forever; to != "" {
			o.Return = moment(to)
		}
	case sign == "x":
		o.Depth, o.Total = n, n
	case count != nil:
		*count = n
	case time != nil && word == sign:
		*time = Forever
	case time != nil:
		*time = int64(n)
	case strings.Contains(word, "#"):
		o.Owner, o.Token = strings.TrimSuffix(sign, "#"), uint64(n)
	default:
		o.Result = Result(word)
	}
}

func moment(text string) int64 {
	if seconds, ok := strings.CutSuffix(text, "s"); ok {
		return int64(atoi(seconds)) * 1e9
	}
	return int64(atoi(text))
}

func atoi(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}
