package redisson

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Ask is one command to a worker, a line of JSON. Durations are sent in milliseconds.
type Ask struct {
	ID     int    `json:"id"`
	Op     string `json:"op"`               // the method of Redisson, or nearly; see Clients.java
	Client string `json:"client,omitempty"` // by the name that it was connected under
	Thread string `json:"thread"`           // who is to do it; a new name is a new thread
	Kind   string `json:"kind,omitempty"`   // lock, fair, fenced, spin, read, write, multi, permits, latch
	Name   string `json:"name,omitempty"`
	// of a multilock its members
	Names []string `json:"names,omitempty"`
	IDs   []string `json:"ids,omitempty"`   // of permits
	N     int      `json:"n,omitempty"`     // of permits, or of count-downs
	Wait  millis   `json:"wait,omitempty"`  // how long to wait, where the method takes that
	Lease millis   `json:"lease,omitempty"` // 0: the watchdog renews it; of permits: they have none

	Settings *Settings `json:"settings,omitempty"`
}

// Settings are those of a RedissonClient; what is zero is Redisson's default.
type Settings struct {
	Mode     string   `json:"mode"`             // single, sentinel, cluster
	Master   string   `json:"master,omitempty"` // the name that the Sentinels have for it
	Addrs    []string `json:"addrs"`
	Watchdog millis   `json:"watchdog,omitempty"` // lockWatchdogTimeout
	FairWait millis   `json:"fairWait,omitempty"` // fairLockWaitTimeout
	Prefix   string   `json:"prefix,omitempty"`   // of a NameMapper
	Sharded  string   `json:"sharded,omitempty"`  // shardedSubscriptionMode, in a cluster
	Timeout  millis   `json:"timeout,omitempty"`  // of an answer, in a client of one server
}

// millis is a duration as Redisson has it.
type millis time.Duration

// MarshalJSON is part of json.Marshaler.
func (m millis) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(m).Milliseconds()) }

// Reply is the answer to an [Ask].
type Reply struct {
	ID      int             `json:"id"`
	Thread  int64           `json:"thread"` // the id of the thread in Java
	Value   json.RawMessage `json:"value,omitempty"`
	Class   string          `json:"class,omitempty"` // of what was thrown
	Message string          `json:"message,omitempty"`
}

// Err is what was thrown, nil if nothing was.
func (r Reply) Err() error {
	if r.Class == "" {
		return nil
	}
	return fmt.Errorf("%s: %s", r.Class[strings.LastIndex(r.Class, ".")+1:], r.Message)
}

// Threw reports whether an exception of this class was thrown, by the last part of its name.
func (r Reply) Threw(class string) bool {
	return r.Class == class || strings.HasSuffix(r.Class, "."+class)
}

// Yes reports whether the method returned, and did not return false.
func (r Reply) Yes() bool { return r.Class == "" && string(r.Value) == "true" }

// Int is the number that was returned, -1 if it was none.
func (r Reply) Int() int64 {
	var n int64
	if r.Class != "" || json.Unmarshal(r.Value, &n) != nil {
		return -1
	}
	return n
}

// Text is the text that was returned, "" if it was none.
func (r Reply) Text() string {
	var s string
	_ = json.Unmarshal(r.Value, &s)
	return s
}

// Texts are the texts that were returned.
func (r Reply) Texts() (all []string) {
	_ = json.Unmarshal(r.Value, &all)
	return all
}
