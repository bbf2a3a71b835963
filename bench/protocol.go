package main

import (
	"time"
)

// A worker is one process. It reads lines of JSON from stdin and writes lines of JSON to stdout:
//
//	worker <- job        what to do
//	worker -> ready      it is connected; from here on nothing is set up any more
//	worker <- window     begin, and count what ends between these two moments
//	worker -> progress   tasks "hold" and "await" only: it holds; it is about to wait
//	worker -> result     or an error
//
// In task "gather" ready and window come once for each lap, and in task "count" twice: see
// latch.go.
//
// It ends when stdin is closed. Durations and times are nanoseconds, times those of
// CLOCK_MONOTONIC. A worker in Java speaks the same.

// Tasks of a worker.
const (
	taskPairs   = "pairs"   // lock and unlock until the window ends
	taskHold    = "hold"    // lock once and hold until killed
	taskAwait   = "await"   // lock once and say when
	taskWaiters = "waiters" // many goroutines wait for one name, then each gets it once; Holdfast only
	taskHeld    = "held"    // hold many names; Holdfast only
	taskIdle    = "idle"    // many goroutines wait for one name that nobody gives up; Holdfast only
	taskGather  = "gather"  // many goroutines wait for a latch
	taskCount   = "count"   // set a latch and count it down
)

// job is what one worker is to do.
type job struct {
	Task       string        `json:"task"`
	Contender  string        `json:"contender"`
	Addr       string        `json:"addr"`              // of the Redis server
	Masters    []string      `json:"masters,omitempty"` // addresses, in scenarios of a quorum; Addr is the first
	DSN        string        `json:"dsn"`               // of the PostgreSQL server
	Etcd       string        `json:"etcd"`              // URL of the etcd server
	Page       string        `json:"page"`              // file of the shared page
	Name       string        `json:"name"`
	Each       bool          `json:"each"` // a name per goroutine: Name and a number
	Process    int           `json:"process"`
	Clients    int           `json:"clients"`
	Goroutines int           `json:"goroutines"` // of this worker; goroutine i uses client i modulo Clients
	Section    time.Duration `json:"section"`    // how long the lock is held
	Lease      time.Duration `json:"lease"`      // 0: the default of the contender
	Count      int           `json:"count"`      // of waiters or names
	Turns      int           `json:"turns"`      // how many processes take the lock in turns; 0: they do not
	Readers    bool          `json:"readers"`    // goroutines lock to read, but the first Writers
	Writers    int           `json:"writers"`    // of this worker. They pause between two locks, and only what they wait is counted
	Pause      time.Duration `json:"pause"`      // of a writer
	Permits    int           `json:"permits"`    // how many may be inside at once; 0: one
	Laps       int           `json:"laps"`       // of a latch
	WarmLaps   int           `json:"warmLaps"`   // of these, not counted
}

// window is what is measured: [From, To).
type window struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// message is what a worker says.
type message struct {
	Event  string  `json:"event"` // ready, progress, result, error
	Error  string  `json:"error,omitempty"`
	Result *result `json:"result,omitempty"`
}

const (
	eventReady    = "ready"
	eventProgress = "progress"
	eventResult   = "result"
	eventError    = "error"
)

// result is what one worker measured. Histograms are HdrHistogram's (V2, compressed, base64), in
// nanoseconds, so that a worker in any language can write them.
type result struct {
	Grants      []int64 `json:"grants"`   // per goroutine, of those that ended within the window
	Waits       string  `json:"waits"`    // how long lock took
	WaitSum     int64   `json:"waitSum"`  // exact, for the mean
	Longest     int64   `json:"longest"`  // wait, also of those that did not end
	Gaps        string  `json:"gaps"`     // from the beginning of a release until the next holder's lock returned
	GapSum      int64   `json:"gapSum"`   // exact, for the mean
	Handover    int64   `json:"handover"` // gaps
	Moved       int64   `json:"moved"`    // gaps between different goroutines
	Entries     int64   `json:"entries"`  // grants at all, also outside the window
	Errors      int64   `json:"errors"`
	Error       string  `json:"error"`       // the first
	Reads       int64   `json:"reads"`       // of readers beside writers, within the window
	LongestRead int64   `json:"longestRead"` // of these, from the moment it was granted until it was given back
	CPU         int64   `json:"cpu"`         // time that the process used while it locked; 0: it did not look
	At          int64   `json:"at"`          // task "await": when it had the lock
	// Values are the metrics of tasks that only Holdfast does.
	Values map[string]float64 `json:"values,omitempty"`
}
