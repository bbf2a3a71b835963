package engine

import (
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// waits are those who wait for a lock of a client, oldest first. Whoever waits is put into the list,
// and takes itself out: two turns with a mutex, and no look at the clock, as many locks of many
// goroutines are handed on in microseconds. How long they have waited is for who looks at them: see
// lookout.go.
type waits struct {
	on bool // somebody needs the list

	mu          sync.Mutex // guards the rest, and the links of what is in the list; never held over anything that waits
	first, last *spot
	come        uint64 // how many have come
	places      int    // how many more places in the program may be noted until the next look
	looking     bool   // somebody looks at them

	epoch time.Time    // a moment before the first lock was granted
	noted atomic.Int64 // when after that the place of a holder was noted last, in nanoseconds
	// labels of other clients that have been in the way; see lookout.go
	labels map[string]string
}

// spot is one wait in the list.
type spot struct {
	of            any // whose wait it is: a grant
	before, after *spot
	number        uint64 // of the wait; 0: it is not in the list
	where         where
}

// enter adds a wait, or notes whose it is now. It reports whether nobody looks at the list: then the
// caller has to see to that. skip is how many frames are between the caller of enter and those that tell
// the user's code, which is noted for some of the waits.
func (ws *waits) enter(s *spot, of any, skip int) (alone bool) {
	if !ws.on {
		return false
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	s.of = of
	if s.number != 0 {
		return false
	}
	ws.come++
	s.number, s.before = ws.come, ws.last
	if ws.last == nil {
		ws.first = s
	} else {
		ws.last.after = s
	}
	ws.last = s
	alone = !ws.looking
	if alone {
		ws.looking, ws.places = true, placesEach
	}
	if ws.places > 0 {
		ws.places--
		s.where.note(skip + 2)
	}
	return alone
}

// placesEach is how many waits between two looks have their place in the program noted. One takes
// about as long as a tenth of a pair of Lock and Unlock within a process.
const placesEach = 128

// noteHolder notes where the holder of a lock was granted it, unless that was done for another one a moment
// ago. skip is as that of enter.
func (ws *waits) noteHolder(s *spot, granted time.Time, skip int) {
	if !ws.on {
		return
	}
	now, last := int64(granted.Sub(ws.epoch)), ws.noted.Load()
	if now-last >= int64(placeGap) && ws.noted.CompareAndSwap(last, now) {
		s.where.note(skip + 1)
	}
}

// placeGap is the least time between two holders whose place is noted: a few per cent of a core at
// most, however many locks are granted.
const placeGap = 100 * time.Microsecond

// leave takes a wait out.
func (ws *waits) leave(s *spot) {
	if s.number == 0 { // of the caller's own goroutine
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if s.before == nil {
		ws.first = s.after
	} else {
		s.before.after = s.after
	}
	if s.after == nil {
		ws.last = s.before
	} else {
		s.after.before = s.before
	}
	s.before, s.after, s.number = nil, nil, 0
}

// old is a wait that somebody looks at.
type old struct {
	*spot
	of     any
	number uint64
}

// older returns the oldest waits with numbers up to upTo, so many of them at most, and the number of the
// newest wait of all. Without any wait, alone is true: then nobody looks any more.
func (ws *waits) older(upTo uint64, most int) (list []old, come uint64, alone bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.places = placesEach
	if ws.first == nil {
		ws.looking = false
		return nil, ws.come, true
	}
	for s := ws.first; s != nil && s.number <= upTo && len(list) < most; s = s.after {
		list = append(list, old{s, s.of, s.number})
	}
	return list, ws.come, false
}

// stands reports whether a wait has not ended.
func (ws *waits) stands(o old) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return o.spot.number == o.number
}

// none reports whether nobody waits.
func (ws *waits) none() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.first == nil
}

// learn notes what another client says of itself. A few hundred are known at a time.
func (ws *waits) learn(client, label string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.labels == nil || len(ws.labels) >= 256 {
		ws.labels = make(map[string]string)
	}
	ws.labels[client] = label
}

// knows reports whether it was asked what another client says of itself.
func (ws *waits) knows(client string) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	_, known := ws.labels[client]
	return known
}

// label is what another client says of itself, if that is known.
func (ws *waits) label(client string) string {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.labels[client]
}

// where is a place in the program: the calls that lead to a Lock. It is noted once, by the goroutine of
// that call, and others read it.
type where struct {
	known atomic.Bool
	calls [5]uintptr // few, because ten thousand may wait
}

// note notes the place of the caller, without the frames between that skip counts: down to the method of
// the kind that was called. Whatever else of this library is between that and the user's code, as Do, has room.
func (w *where) note(skip int) {
	if w.known.Load() {
		return
	}
	runtime.Callers(skip+1, w.calls[:])
	w.known.Store(true)
}

// String is the first call that is not this library's own; empty if it was not noted, or is not among
// those: package multilock asks in goroutines of its own.
func (w *where) String() string {
	if !w.known.Load() {
		return ""
	}
	n := 0
	for n < len(w.calls) && w.calls[n] != 0 {
		n++
	}
	for frames := runtime.CallersFrames(w.calls[:n]); ; {
		frame, more := frames.Next()
		if frame.Function != "" && !isOurs(frame.Function) && !strings.HasPrefix(frame.Function, "runtime.") {
			file := frame.File[strings.LastIndexByte(frame.File, '/')+1:]
			return frame.Function + " " + file + ":" + strconv.Itoa(frame.Line)
		}
		if !more {
			return ""
		}
	}
}

// isOurs reports whether a function is of this library. Its tests and programs are users.
func isOurs(function string) bool {
	const module = "github.com/holdfast-go/holdfast"
	rest, ours := strings.CutPrefix(function, module)
	if !ours {
		return false
	}
	switch {
	case strings.HasPrefix(rest, "."), strings.HasPrefix(rest, "/internal/"):
		return true
	}
	for _, kind := range []string{"rlock", "fairlock", "redlock", "rwlock", "semaphore", "multilock", "election"} {
		if strings.HasPrefix(rest, "/"+kind+".") {
			return true
		}
	}
	return false
}
