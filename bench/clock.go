package main

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// origin ties the time of this process to CLOCK_MONOTONIC, which all processes of a machine share.
// time.Since is read without a system call, unix.ClockGettime is not.
var origin = func() (o struct {
	at   time.Time
	mono int64
}) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // there is no benchmark without a clock
	}
	o.at, o.mono = time.Now(), ts.Nano()
	return o
}()

// now is CLOCK_MONOTONIC in nanoseconds. A worker in Java reads the same clock as System.nanoTime.
func now() int64 { return origin.mono + int64(time.Since(origin.at)) }

// timeAt is the moment of this process at which now will be mono.
func timeAt(mono int64) time.Time { return origin.at.Add(time.Duration(mono - origin.mono)) }

// pause waits for d or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
