package main

import "golang.org/x/sys/unix"

// cpuUsed is the processor time of this process so far, in nanoseconds.
func cpuUsed() int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// cpuOf is what all workers used, 0 if one of them did not look.
func cpuOf(results []*result) (total int64) {
	for _, r := range results {
		if r.CPU == 0 {
			return 0
		}
		total += r.CPU
	}
	return total
}
