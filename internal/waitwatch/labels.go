package waitwatch

import (
	"sync"
	"time"
)

// labels are those of other clients that have blocked ours, and what reading them may cost.
type labels struct {
	mu     sync.Mutex // guards the rest; never held over a network call
	of     map[string]label
	since  time.Time // the current minute began
	reads  int       // in it
	denied bool      // the client may not read labels, or may not write its own; it asks no more
}

// label is that of another client.
type label struct {
	text  string // empty: there was none, or no answer
	asked time.Time
	times int // without an answer
}

const (
	// labelAgain is after how long a client is asked again for a label that was not there: it is written a moment after
	// the first grant. The pause doubles each time, mostPauses times: a client without a label stays without one.
	labelAgain = time.Second
	mostPauses = 6
	// mostReads is how many labels a client reads in a minute. Where thousands of clients take turns, each refusal may
	// name another one.
	mostReads = 30
	// mostLabels is how many labels are remembered.
	mostLabels = 256
)

// learn notes another client's label.
func (ls *labels) learn(client, text string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l, ok := ls.of[client]; ok {
		l.text = text
		ls.of[client] = l
	}
}

// deny ends the reading of labels.
func (ls *labels) deny() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.denied = true
}

// get is another client's label, as far as it is known. The caller must ask for it if ask is true.
func (ls *labels) get(client string) (text string, ask bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, known := ls.of[client]
	if l.text != "" || ls.denied {
		return l.text, false
	}
	now := time.Now()
	if known && now.Sub(l.asked) < labelAgain<<min(l.times-1, mostPauses) || !ls.spend(now) {
		return "", false
	}
	if ls.of == nil {
		ls.of = make(map[string]label)
	}
	if !known && len(ls.of) >= mostLabels {
		for other := range ls.of { // any: whose label is used again is soon read again
			delete(ls.of, other)
			break
		}
	}
	ls.of[client] = label{asked: now, times: l.times + 1}
	return "", true
}

// spend takes one read from those of the minute, if there is one left.
func (ls *labels) spend(now time.Time) bool {
	if now.Sub(ls.since) >= time.Minute {
		ls.since, ls.reads = now, 0
	}
	if ls.reads >= mostReads {
		return false
	}
	ls.reads++
	return true
}
