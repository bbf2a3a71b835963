// Package deadlock finds circles of waits over any number of processes: A has x and waits for y, and B
// has y and waits for x.
//
// Each client says in Redis which of its waits have lasted long, and which other locks their callers
// have: a text with a time to live, written anew every few seconds for as long as it is so. Who reads
// what the clients say sees a graph. Its nodes are waits. From a wait, an arrow leads to each wait whose
// caller has the lock that the first one waits for. A circle in it is a deadlock, if all of it stood at
// one moment. What clients say is not of one moment, and so a circle counts only when it was seen twice:
// with the same waits and the same holds, by their tokens, and the second time in texts that were made
// after the first time. Then all of it stood in between.
//
// Not seen, and so not promised:
//
//   - A wait that is not called under the context of what its caller holds, or with the same owner. Nobody
//     knows then that the two belong together.
//   - Waits for permits of a semaphore, which come from whoever has some, and for latches.
//   - Who waits only because somebody is before it in a queue.
//   - What is held or waited for on another Redis than the rest of the circle.
//
// Nor is it promised that a circle never ends by itself: a wait may have a limit, and what a caller
// holds may be given back by another goroutine that has the same hold.
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

// Lock is which lock somebody waits for, or has.
type Lock struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Bytes is in a text the base64 of a Name that is no UTF-8, as JSON has no such names; else empty.
	Bytes string `json:"name_base64,omitempty"`
	// Reading says that it is read only, beside others who do.
	Reading bool `json:"reading,omitempty"`
	// Several is how many masters grant the lock; 0: one server does.
	Several int `json:"several,omitempty"`
}

// Hold is what the caller of a wait has.
type Hold struct {
	Lock
	Owner string `json:"owner"`
	Token uint64 `json:"token,string"` // as a text, because some readers of JSON have no such numbers
}

// Wait is one wait that has lasted long.
type Wait struct {
	Lock
	ID    uint64 `json:"id"`    // another one for each wait of a client
	Owner string `json:"owner"` // that wants the lock
	By    string `json:"by"`    // the owner that has the lock, as was heard last; empty: not known
	MS    int64  `json:"ms"`    // for how long at least
	Holds []Hold `json:"holds"`
}

// Waited is for how long at least.
func (w *Wait) Waited() time.Duration { return time.Duration(w.MS) * time.Millisecond }

// Said is what one client says.
type Said struct {
	Version int    `json:"version"`
	Client  string `json:"client"`
	Label   string `json:"label,omitempty"`
	// Number is greater by one than that of the last text that Redis has confirmed, before this one was
	// begun.
	Number  uint64 `json:"number"`
	EveryMS int64  `json:"every_ms"` // the time between two of them, at most MostEvery
	Waits   []Wait `json:"waits"`
}

const (
	version = 1
	// MostWaits is how many waits a client tells of.
	MostWaits = 64
	// MostHolds is how many holds it tells of for each of them.
	MostHolds = 32
	// mostText is how long a text may be: names can be long.
	mostText = 64 << 10
	// MostEvery is the longest time between two texts of a client, however long its waits are: who reads
	// them waits for that long to be certain of a circle.
	MostEvery = 15 * time.Second
)

// Text is the text for Redis. If there is too much to say the last waits are left out.
func (s *Said) Text() string {
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
			return string(text) // there is nothing in it that cannot be encoded
		}
		s.Waits = s.Waits[:len(s.Waits)/2]
	}
}

// each calls a function with all locks of a text.
func (s *Said) each(f func(*Lock)) {
	for i := range s.Waits {
		f(&s.Waits[i].Lock)
		for j := range s.Waits[i].Holds {
			f(&s.Waits[i].Holds[j].Lock)
		}
	}
}

// Parse reads such a text. Another version than this one may mean something else by it. A label that no
// client has is left out, and a time between two texts that no client has is brought within bounds: whoever
// can write to Redis can write such a text.
func Parse(text string) (*Said, error) {
	var s Said
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
