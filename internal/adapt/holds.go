package adapt

import (
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast"
)

// Holds are the holds of a library that unlocks without saying which, by what it does say: a name, or
// a connection. The zero value has none. All methods are safe for concurrent use.
//
// Several holds under one key are those of one lock, so all but the newest are lost. Their holders
// do not know it yet and will unlock. [Holds.Take] hands them the oldest: whoever unlocks first, a
// hold that may live is ended by nobody before the last.
type Holds[K comparable] struct {
	mu    sync.Mutex // guards holds
	holds map[K][]*holdfast.Hold
}

// Add notes a new hold.
func (h *Holds[K]) Add(key K, hold *holdfast.Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.holds == nil {
		h.holds = make(map[K][]*holdfast.Hold)
	}
	h.holds[key] = append(h.holds[key], hold)
}

// Take returns the oldest hold of the key, and forgets it. It is nil if there is none.
func (h *Holds[K]) Take(key K) *holdfast.Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.holds[key]) == 0 {
		return nil
	}
	oldest := h.holds[key][0]
	h.drop(key, 0)
	return oldest
}

// Oldest is what [Holds.Take] would return, and stays.
func (h *Holds[K]) Oldest(key K) *holdfast.Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.holds[key]) == 0 {
		return nil
	}
	return h.holds[key][0]
}

// Newest is the only one that may not be lost. It is nil if there is none.
func (h *Holds[K]) Newest(key K) *holdfast.Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.holds[key]) == 0 {
		return nil
	}
	return h.holds[key][len(h.holds[key])-1]
}

// Remove forgets a hold, if it is there.
func (h *Holds[K]) Remove(key K, hold *holdfast.Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.holds[key], hold); i >= 0 {
		h.drop(key, i)
	}
}

// drop is called with mu held.
func (h *Holds[K]) drop(key K, i int) {
	if h.holds[key] = slices.Delete(h.holds[key], i, i+1); len(h.holds[key]) == 0 {
		delete(h.holds, key)
	}
}
