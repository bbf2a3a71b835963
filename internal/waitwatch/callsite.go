package waitwatch

import (
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
)

// callSite is a place in the program: the calls that lead to a Lock. The goroutine of that call notes it once, and
// others read it.
type callSite struct {
	known atomic.Bool
	told  atomic.Bool // a report has named the holder that came from here
	calls [5]uintptr  // few, because ten thousand may wait
}

// noteSite notes the caller's place, without the frames between that skip counts: down to the method of the kind that
// the user has called. What else of this library lies between that and the user's code, such as Do, has room.
func (s *callSite) noteSite(skip int) {
	if s.known.Load() {
		return
	}
	runtime.Callers(skip+2, s.calls[:])
	s.known.Store(true)
}

// Site is the first call that is not this library's own; empty if it was not noted, or is not among
// those: package multilock asks in goroutines of its own.
func (s *callSite) Site() string {
	if !s.known.Load() {
		return ""
	}
	n := 0
	for n < len(s.calls) && s.calls[n] != 0 {
		n++
	}
	for frames := runtime.CallersFrames(s.calls[:n]); ; {
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
