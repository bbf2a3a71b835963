package waitwatch

import (
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
)

// callSite is a place in the program: the calls that lead to a Lock. The goroutine of that call notes it once, and other
// goroutines read it.
type callSite struct {
	known    atomic.Bool
	reported atomic.Bool // a report has named the holder of this call
	calls    [5]uintptr  // few, because ten thousand may wait
}

// noteSite notes the caller's place. skip counts the frames to leave out, down to the method of the kind that the user
// has called. Further frames of this library below the user's code, such as Do, have room.
func (s *callSite) noteSite(skip int) {
	if s.known.Load() {
		return
	}
	runtime.Callers(skip+2, s.calls[:])
	s.known.Store(true)
}

// Site is the first call outside this library. It is empty if no site was noted, or if all noted calls are the
// library's: package multilock locks in goroutines of its own.
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
