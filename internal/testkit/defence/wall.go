package defence

import (
	"sync/atomic"
	"time"
)

var ahead atomic.Int64

// Wall is what the wall clock of this process shows at a moment, for what a defence that is
// switched off would read it for. Nothing else of what is sent to a server comes from that clock; a
// test of the root holds the library to it.
func Wall(t time.Time) time.Time { return t.Add(time.Duration(ahead.Load())) }

// SetWall sets that clock apart from those of other processes of the machine, as those of other
// machines are.
func SetWall(d time.Duration) { ahead.Store(int64(d)) }
