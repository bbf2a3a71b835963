package holdfastweb

import (
	"cmp"
	"encoding/hex"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/grantrate"
)

// key is a lock's name at one of the masters.
type key struct {
	at   int
	name string
}

// id is a key where it must be short and plain: in the page.
func (k key) id() string {
	h := fnv.New128a()
	_, _ = h.Write([]byte(strconv.Itoa(k.at) + " " + k.name)) // a hash takes all
	return "r" + hex.EncodeToString(h.Sum(nil)[:10])
}

// entry is what is known of a lock. It does not change once it is made.
type entry struct {
	key
	lock inspect.Lock
	seen time.Time // by this machine's clock, as the times below; masters may have clocks of their own
	// granted is zero where that is not known, and ends where there is no end, or no lease.
	granted, ends time.Time
	rate          grantrate.Rate // as of then
	text          string         // in lower case: what a plain filter is looked for in
}

// jitter is by how much a time differs between two looks that is the same: what the answer took to come.
const jitter = 1500 * time.Millisecond

// newEntry keeps the times of before if they are the same but for jitter: what stays as it is need not
// be sent again.
func newEntry(at int, l inspect.Lock, seen time.Time, before *entry) *entry {
	e := &entry{key: key{at, l.Name}, lock: l, seen: seen}
	if granted := l.Granted(); !granted.IsZero() {
		e.granted = seen.Add(-l.At.Sub(granted))
	}
	if left := e.left(); left >= 0 {
		e.ends = seen.Add(left)
	}
	var b strings.Builder
	b.WriteString(l.Name)
	for _, h := range l.Holders {
		b.WriteString("\n" + h.Owner + "\n" + h.Label)
	}
	for _, w := range l.Queue {
		b.WriteString("\n" + w.Owner + "\n" + w.Label)
	}
	e.text = strings.ToLower(b.String())
	if before != nil {
		e.granted, e.ends = settled(e.granted, before.granted), settled(e.ends, before.ends)
	}
	return e
}

func settled(now, before time.Time) time.Time {
	if d := now.Sub(before); !now.IsZero() && !before.IsZero() && d.Abs() < jitter {
		return before
	}
	return now
}

// left is what is left of the lease, or of the key where that is not of one holder; negative: no end,
// or nothing that could end.
func (e *entry) left() time.Duration {
	if len(e.lock.Holders) > 0 {
		return e.lock.Holders[0].Remaining
	}
	return e.lock.Remaining
}

// listed reports whether a lock belongs into the list: it may have been free again when it was looked at.
func (e *entry) listed() bool {
	l := &e.lock
	return l.Held() || l.Waiters > 0 || len(l.Queue) > 0 || len(l.Problems) > 0
}

// waiting is how many wait, as far as that is known.
func (e *entry) waiting() int {
	n, _ := e.lock.Waiting()
	return max(n, 0)
}

// snapshot is what is known at one time. It does not change once it is published, but for what it
// remembers of its views.
type snapshot struct {
	list  []*entry
	index map[key]int // where in list
	apart map[key]*entry
	taken time.Time // when the list was; zero: never
	next  time.Time // when the next one will be, at the earliest
	more  bool      // there are more locks than are kept
	down  map[int]outage

	mu    sync.Mutex // guards views
	views map[viewKey]seen
}

// seen is what a view has.
type seen struct {
	list    []*entry
	tooLong bool // the filter took so long that nothing was looked at to the end
	kinds   string
}

// filterWithin is how long a filter may take. A pattern of many brackets takes a second for some ten thousand
// long names, and meanwhile nobody else sees anything of the snapshot.
var filterWithin = 500 * time.Millisecond

// outage is why nothing new is known of a master.
type outage struct {
	since  time.Time
	err    error
	ofList bool // it was the list that failed
}

// stays reports whether rows that a master shows are no sign that it is over: it refuses the list.
func (o outage) stays() bool { return o.ofList && answered(o.err) }

// find is what is known of a key, nil if nothing is.
func (s *snapshot) find(k key) *entry {
	if e := s.apart[k]; e != nil {
		return e
	}
	if n, ok := s.index[k]; ok {
		return s.list[n]
	}
	return nil
}

// viewKey is what decides which locks are shown, and in which order.
type viewKey struct {
	match, kind, show, sort string
	down                    bool // the other way round
}

// maxViews is how many views a snapshot remembers: many people look at one, and few at others.
const maxViews = 32

// of are the locks of a view. The caller does not change them.
func (s *snapshot) of(v viewKey) seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.views[v]; ok {
		return known
	}
	var list []*entry
	tooLong, until := false, time.Now().Add(filterWithin)
	for n, e := range s.list {
		if n%64 == 63 && time.Now().After(until) {
			list, tooLong = nil, true
			break
		}
		if v.wants(e) {
			list = append(list, e)
		}
	}
	order := orders[v.sort]
	slices.SortFunc(list, func(a, b *entry) int {
		c := order(a, b)
		if v.down {
			c = -c
		}
		return cmp.Or(c, strings.Compare(a.name, b.name), cmp.Compare(a.at, b.at))
	})
	if s.views == nil || len(s.views) >= maxViews {
		s.views = make(map[viewKey]seen)
	}
	s.views[v] = seen{list, tooLong, totals(list)}
	return s.views[v]
}

// totals says how many locks of each kind there are, empty if there is one kind. The most frequent comes first.
func totals(list []*entry) string {
	count := make(map[inspect.Kind]int)
	for _, e := range list {
		count[e.lock.Kind]++
	}
	if len(count) < 2 {
		return ""
	}
	of := slices.SortedFunc(maps.Keys(count), func(a, b inspect.Kind) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, k := range of {
		parts = append(parts, grouped(count[k])+" "+cmp.Or(kindName(k), "of unknown kind"))
	}
	return strings.Join(parts, ", ")
}

// The values of show.
const (
	showAll, showWaited, showWrong = "", "waited", "wrong"
)

// wants reports whether a view has a lock. A text without any of * ? [ is looked for anywhere in the name,
// the owners and the labels.
func (v *viewKey) wants(e *entry) bool {
	switch {
	case v.kind != "" && string(e.lock.Kind) != v.kind:
		return false
	case v.show == showWaited && e.waiting() == 0:
		return false
	case v.show == showWrong && len(e.lock.Problems) == 0:
		return false
	case v.match == "":
		return true
	case strings.ContainsAny(v.match, "*?["):
		return inspect.Matches(v.match, e.name)
	}
	return strings.Contains(e.text, strings.ToLower(v.match))
}

// defaultSort is what needs somebody's attention: what looks wrong, then what most wait for, then what
// has been held for longest.
const defaultSort = "attention"

var orders = map[string]func(a, b *entry) int{
	defaultSort: func(a, b *entry) int {
		return cmp.Or(cmp.Compare(min(1, len(b.lock.Problems)), min(1, len(a.lock.Problems))), cmp.Compare(b.waiting(), a.waiting()),
			whenKnown(a.granted, b.granted))
	},
	"name":    func(a, b *entry) int { return strings.Compare(a.name, b.name) },
	"kind":    func(a, b *entry) int { return strings.Compare(string(a.lock.Kind), string(b.lock.Kind)) },
	"since":   func(a, b *entry) int { return whenKnown(a.granted, b.granted) },
	"left":    func(a, b *entry) int { return whenKnown(a.ends, b.ends) },
	"waiting": func(a, b *entry) int { return cmp.Compare(b.waiting(), a.waiting()) },
	"grants":  func(a, b *entry) int { return cmp.Compare(b.perSecond(), a.perSecond()) },
}

// whenKnown orders times, and puts those behind that are not known.
func whenKnown(a, b time.Time) int {
	if a.IsZero() == b.IsZero() {
		return a.Compare(b)
	}
	if a.IsZero() {
		return 1
	}
	return -1
}
