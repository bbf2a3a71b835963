package history

import (
	"cmp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const lease = 100 // ns, which is all that these histories take

// row is a history, and the checks that it fails.
type row struct{ what, ops, fails string }

// judge checks that each history fails the checks that it is to fail, and no other.
func judge(t *testing.T, f Family, rows []row) {
	t.Helper()
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
