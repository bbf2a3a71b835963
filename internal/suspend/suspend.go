// Package suspend notices that the machine slept.
//
// The monotonic clock of Linux, and of some other systems, stands still while a machine is
// suspended, and leases are measured by it. A server's clock goes on, so a lease that seems to be
// fresh may have ended hours ago. Where the system counts the time that it slept (Linux does) it is
// known exactly, as soon as anybody looks. Elsewhere there is only the wall clock, which is ahead
// of the monotonic one afterwards; but so it is when somebody sets it forward. That is a doubt, for
// a server to decide.
//
// Not noticed is what no clock of the machine shows: that a virtual machine was stopped, until its
// wall clock is set.
package suspend

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// step is by how much the wall clock has to move against the monotonic one for a closer look. A
	// wall clock that is adjusted in the usual way moves by half a millisecond a second at most.
	step = time.Millisecond
	// jump is from what on a wall clock that moved forward, where nothing tells that the machine
	// slept, is a doubt.
	jump = 2 * time.Second
	// most is how many sleeps are remembered. What was before them counts as from before all.
	most = 64
)

// Source is where a clock has its times from.
type Source struct {
	Now func() time.Time
	// Ahead is by how much the wall clock has run ahead of the monotonic one since some moment.
	Ahead func(now time.Time) time.Duration
	// Asleep is for how long the machine has slept since it was started. Not ok: the system does
	// not count that.
	Asleep func() (total time.Duration, ok bool)
}

// System is the clock of this machine.
var System = New(Source{
	Now:   time.Now,
	Ahead: func(now time.Time) time.Duration { return ahead(now) + time.Duration(pretended.Load()) },
	Asleep: func() (time.Duration, bool) {
		total, ok := asleep()
		more := time.Duration(pretended.Load())
		return total + more, ok || more > 0
	},
})

var pretended atomic.Int64

// Pretend makes it as if the machine had slept for so long, for tests. It does not wake up from
// that.
func Pretend(d time.Duration) { pretended.Add(int64(d)) }

var (
	start     = time.Now()
	startWall = start.UnixNano()
)

// ahead compares what is in a Time. Without a monotonic part it is nothing.
func ahead(now time.Time) time.Duration {
	return time.Duration(now.UnixNano()-startWall) - now.Sub(start)
}

// Clock notices that the machine slept, when somebody looks. All methods are safe for concurrent
// use.
type Clock struct {
	src   Source
	first time.Duration // that it had slept when the clock was made

	skew   atomic.Int64 // by how much the wall clock had run ahead of the monotonic one when the two were compared last
	doubts atomic.Int64
	sleeps atomic.Pointer[[]sleep] // oldest first; nil: none. What it points to is never written

	mu sync.Mutex // of whoever takes a closer look
}

// sleep is one time that the machine slept.
type sleep struct {
	noticed       time.Time
	before, after time.Duration // that it had slept since the clock was made
}

// New makes a clock.
func New(src Source) *Clock {
	c := &Clock{src: src}
	c.first, _ = src.Asleep()
	c.skew.Store(int64(src.Ahead(src.Now())))
	return c
}

// Forget makes the clock like a new one, for tests in virtual time, which begins anew in each of
// them.
func (c *Clock) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.first, _ = c.src.Asleep()
	c.sleeps.Store(nil)
	c.skew.Store(int64(c.src.Ahead(c.src.Now())))
}

// Now looks whether the machine slept, and is the time after that. Whoever counts a lease from the
// sending of a command takes the time from here: what was taken before a sleep was noticed may be
// from before it, and is treated so.
//
// It costs little more than time.Now while nothing happens. (Rejected: to ask the system each time
// for how long it slept. That is a system call.)
func (c *Clock) Now() time.Time {
	now := c.src.Now()
	moved := c.src.Ahead(now) - time.Duration(c.skew.Load())
	if moved < step && moved > -step {
		return now
	}
	return c.measure()
}

func (c *Clock) measure() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	total, known := c.src.Asleep()
	now := c.src.Now() // not before that: what is sent from now on is sent after the sleep
	ahead, slept, list := c.src.Ahead(now), total-c.first, c.list()
	last := time.Duration(0)
	if len(list) > 0 {
		last = list[len(list)-1].after
	}
	switch {
	case known && slept-last >= step:
		list = append(slices.Clone(list[max(0, len(list)-most+1):]), sleep{now, last, slept})
		list[0].before = 0
		c.sleeps.Store(&list)
	case ahead-time.Duration(c.skew.Load()) >= jump:
		c.doubts.Add(1)
	}
	c.skew.Store(int64(ahead))
	return now
}

func (c *Clock) list() []sleep {
	if list := c.sleeps.Load(); list != nil {
		return *list
	}
	return nil
}

// SleptBy is for how long the machine had slept at a moment since the clock was made, as far as
// that was noticed. A moment from before a sleep was noticed counts as from before that sleep.
func (c *Clock) SleptBy(t time.Time) (slept time.Duration) {
	for _, s := range c.list() {
		if t.Before(s.noticed) {
			return s.before
		}
		slept = s.after
	}
	return slept
}

// Slept is for how long the machine has slept since the clock was made, as far as that was noticed.
func (c *Clock) Slept() (total time.Duration) {
	if list := c.list(); len(list) > 0 {
		total = list[len(list)-1].after
	}
	return total
}

// Doubts is how often the machine may have slept, which only a server can decide.
func (c *Clock) Doubts() int64 { return c.doubts.Load() }
