package holdfasttest

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// goroutine is the number of the calling goroutine, and whether it runs in a bubble. The runtime
// says both to people only, in the first line of a stack: "goroutine 7 [running, synctest bubble
// 6]:". The owner of a lock is no goroutine; the number serves to find who waits for itself, and
// nothing else.
func goroutine() (id int, bubble bool) {
	var buf [128]byte
	line, _, _ := bytes.Cut(buf[:runtime.Stack(buf[:], false)], []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) > 1 {
		id, _ = strconv.Atoi(fields[1])
	}
	return id, strings.Contains(string(line), "synctest bubble")
}

const library = "github.com/holdfast-go/holdfast"

// callSite is the place outside the library from which it was called: a file with its last folder,
// and a line.
func callSite() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !isLibrary(f.Function, f.File) && !strings.HasPrefix(f.Function, "runtime.") {
			dir, file := filepath.Split(f.File)
			return fmt.Sprintf("%s/%s:%d", filepath.Base(dir), file, f.Line)
		}
		if !more {
			return "a place that is not known"
		}
	}
}

// isLibrary leaves the tests of the library's own packages out: to them it is somebody else's.
func isLibrary(function, file string) bool {
	return strings.HasPrefix(function, library) && !strings.HasSuffix(file, "_test.go")
}
