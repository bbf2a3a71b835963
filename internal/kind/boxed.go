package kind

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lua"
)

// Boxes keeps the arguments that are the same in each call of a lock. go-redis takes arguments as
// any, and boxing a number or a string anew for each call allocates. The zero value is ready, and
// is used concurrently.
type Boxes struct{ last atomic.Pointer[lease] }

type lease struct {
	length      time.Duration
	millis, ttl any
}

// Lease is [Millis] and [TokenTTL] of a lease. Those of the last one are kept: a lock rarely has
// two.
func (b *Boxes) Lease(d time.Duration) (millis, ttl any) {
	l := b.last.Load()
	if l == nil || l.length != d {
		l = &lease{d, Millis(d), TokenTTL(d)}
		b.last.Store(l)
	}
	return l.millis, l.ttl
}

var yes, no, publish, spublish, classic any = "1", "0", "PUBLISH", "SPUBLISH", lua.PublishClassic

// Flag is a yes or no as scripts take it.
func Flag(is bool) any {
	if is {
		return yes
	}
	return no
}

// Publish is a command that announces.
func Publish(command string) any {
	switch command {
	case publish:
		return publish
	case spublish:
		return spublish
	case classic:
		return classic
	}
	return command
}
