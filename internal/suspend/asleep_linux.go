package suspend

import (
	"syscall"
	"time"
	"unsafe"
)

// Of clock_gettime(2).
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// asleep is by how much the clock that counts sleep is ahead of the one that does not. Where a
// reading was interrupted it is read again; it never comes out too small.
func asleep() (total time.Duration, ok bool) {
	for range 5 {
		before, ok := gettime(clockMonotonic)
		boot, ok2 := gettime(clockBoottime)
		after, ok3 := gettime(clockMonotonic)
		if !ok || !ok2 || !ok3 {
			return 0, false
		}
		if total = boot - before; after-before < step/10 {
			return total, true
		}
	}
	return total, true
}

func gettime(clock uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
