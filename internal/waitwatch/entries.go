package waitwatch

import "sync"

// entries are the waits of a client, oldest first.
type entries struct {
	mu          sync.Mutex // guards the rest, and the links of the entries in the list; never held while waiting
	first, last *Entry
	count       uint64 // of all waits so far
	sites       int    // how many more call sites may be noted until the next check
	checking    bool   // a goroutine checks them
}

// Entry is one wait in the list. The zero Entry is not in a list.
type Entry struct {
	of            Grant
	before, after *Entry
	number        uint64 // of the wait; 0: it is not in the list
	callSite
}

// enter adds a wait, or notes which grant it waits for now. It reports whether no goroutine checks the list: then the
// caller must start one.
func (es *entries) enter(e *Entry, of Grant, skip int) (unwatched bool) {
	es.mu.Lock()
	defer es.mu.Unlock()
	e.of = of
	if e.number != 0 {
		return false
	}
	es.count++
	e.number, e.before = es.count, es.last
	if es.last == nil {
		es.first = e
	} else {
		es.last.after = e
	}
	es.last = e
	unwatched = !es.checking
	if unwatched {
		es.checking, es.sites = true, sitesEach
	}
	if es.sites > 0 {
		es.sites--
		e.noteSite(skip + 1)
	}
	return unwatched
}

// sitesEach is how many waits between two checks have their call site noted. Noting one takes about a tenth of the time
// of a Lock and an Unlock within a process.
const sitesEach = 128

func (es *entries) leave(e *Entry) {
	es.mu.Lock()
	defer es.mu.Unlock()
	if e.before == nil {
		es.first = e.after
	} else {
		e.before.after = e.after
	}
	if e.after == nil {
		es.last = e.before
	} else {
		e.after.before = e.before
	}
	e.before, e.after, e.number = nil, nil, 0
}

// seen is an entry as it was when it was checked.
type seen struct {
	*Entry
	of     Grant
	number uint64
}

// older returns the oldest waits with numbers up to upTo, at most that many of them, and how many waits have begun so
// far. If there are no waits, alone is true, and the caller must stop checking.
func (es *entries) older(upTo uint64, most int) (list []seen, count uint64, alone bool) {
	es.mu.Lock()
	defer es.mu.Unlock()
	es.sites = sitesEach
	if es.first == nil {
		es.checking = false
		return nil, es.count, true
	}
	for e := es.first; e != nil && e.number <= upTo && len(list) < most; e = e.after {
		list = append(list, seen{e, e.of, e.number})
	}
	return list, es.count, false
}

// lasts reports whether a wait has not ended.
func (es *entries) lasts(s seen) bool {
	es.mu.Lock()
	defer es.mu.Unlock()
	return s.Entry.number == s.number
}

func (es *entries) isEmpty() bool {
	es.mu.Lock()
	defer es.mu.Unlock()
	return es.first == nil
}
