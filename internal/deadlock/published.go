// Package deadlock finds circles of waits over any number of processes: A has x and waits for y, and B
// has y and waits for x.
//
// Each client publishes in Redis which of its waits have lasted long, and which other locks their callers
// hold: a text with a time to live, written anew every few seconds while such waits last. The texts form a
// graph. Its nodes are waits. From a wait, an arrow leads to each wait whose caller has the lock that the
// first one waits for. A circle in it is a deadlock, if all of it existed at one moment. The texts are of
// different moments, so a circle counts only when it was seen twice: with the same waits and the same
// holds, by their tokens, and the second time in texts that were made after the first time. Then all of it
// existed in between.
//
// Not seen, and so not promised:
//
//   - A wait under a context that does not belong to the caller's other hold, or under another owner: then
//     the two cannot be connected.
//   - Waits for permits of a semaphore, which may come from any holder, and for latches.
//   - A wait that lasts only because another waiter is before it in a queue.
//   - Holds and waits on another Redis than the rest of the circle.
//
// It is not promised either that a circle never ends by itself: a wait may have a limit, and another
// goroutine with the same hold may release it.
package deadlock

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/keys"
)

// Lock names a lock that a caller waits for, or has.
type Lock struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Bytes is, in a text, the base64 of a Name that is not UTF-8, because JSON has no such names; otherwise empty.
	Bytes string `json:"name_base64,omitempty"`
	// Reading says that this is the readers' side, which several owners hold at once.
	Reading bool `json:"reading,omitempty"`
	// Several is how many masters grant the lock; 0: one server does.
	Several int `json:"several,omitempty"`
}

// Hold is a lock that the caller of a wait has.
type Hold struct {
	Lock
	Owner string `json:"owner"`
	Token uint64 `json:"token,string"` // as text, because some readers of JSON lose precision
}

// Wait is one wait that has lasted long.
type Wait struct {
	Lock
	ID    uint64 `json:"id"`    // different for each wait of a client
	Owner string `json:"owner"` // the owner that wants the lock
	By    string `json:"by"`    // the owner that has the lock, as last known; empty: not known
	MS    int64  `json:"ms"`    // how long it has lasted, at least
	Holds []Hold `json:"holds"`
}

// Waited is how long the wait has lasted, at least.
func (w *Wait) Waited() time.Duration { return time.Duration(w.MS) * time.Millisecond }

// Published is the text of one client.
type Published struct {
	Version int    `json:"version"`
	Client  string `json:"client"`
	Label   string `json:"label,omitempty"`
	// Number is one greater than the number of the last text that Redis had confirmed when this one was begun.
	Number  uint64 `json:"number"`
	EveryMS int64  `json:"every_ms"` // the time between two texts, at most MostEvery
	Waits   []Wait `json:"waits"`
}

const (
	version = 1
	// MostWaits is how many waits a text has at most.
	MostWaits = 64
	// MostHolds is how many holds each wait has at most.
	MostHolds = 32
	// mostText is how long a text may be, because names can be long.
	mostText = 64 << 10
	// MostEvery is the longest time between two texts of a client, however long its waits are: a reader
	// must wait for that long to be certain of a circle.
	MostEvery = 15 * time.Second
)

// Text is the text for Redis. It leaves out the last waits if it would be too long.
func (s *Published) Text() string {
	s.Version = version
	s.each(func(l *Lock) {
		if !utf8.ValidString(l.Name) {
			l.Bytes = base64.StdEncoding.EncodeToString([]byte(l.Name))
		}
	})
	defer s.each(func(l *Lock) { l.Bytes = "" })
	for {
		text, err := json.Marshal(s)
		if err != nil || len(s.Waits) == 0 || len(text) <= mostText {
			return string(text) // every value in it can be encoded
		}
		s.Waits = s.Waits[:len(s.Waits)/2]
	}
}

// each calls a function with all locks of a text.
func (s *Published) each(f func(*Lock)) {
	for i := range s.Waits {
		f(&s.Waits[i].Lock)
		for j := range s.Waits[i].Holds {
			f(&s.Waits[i].Holds[j].Lock)
		}
	}
}

// Parse reads such a text. It refuses other versions, in which the text may mean something else. It drops invalid
// labels, and brings the time between two texts within bounds: every user of the Redis can write such a text.
func Parse(text string) (*Published, error) {
	var s Published
	if len(text) > 4*mostText {
		return nil, errors.New("the text is too long")
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nil, err
	}
	if s.Version != version {
		return nil, fmt.Errorf("the text is of version %d, and this is %d", s.Version, version)
	}
	s.each(func(l *Lock) {
		if name, err := base64.StdEncoding.DecodeString(l.Bytes); err == nil && len(name) > 0 {
			l.Name = string(name)
		}
		l.Bytes = ""
	})
	if !keys.IsLabel(s.Label) {
		s.Label = ""
	}
	s.EveryMS = min(max(s.EveryMS, 0), MostEvery.Milliseconds())
	return &s, nil
}
