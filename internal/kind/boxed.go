package kind

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/lua"
)

// Plain has the keys of a lock whose hash has one owner, and makes the calls of the scripts that such kinds share. A
// kind embeds it, and adds its own.
type Plain struct {
	Keys keys.Lock
	// The keys again, boxed once, like the arguments of [Boxes].
	Hash, Token, Releases any
	Boxes
}

// NewPlain is for the lock called name.
func NewPlain(name string) Plain {
	k := keys.For(name)
	return Plain{Keys: k, Hash: k.Name, Token: k.Token, Releases: k.Channel}
}

// Name is [Lock.Name].
func (p *Plain) Name() string { return p.Keys.Name }

// Channel is [Lock.Channel].
func (p *Plain) Channel() string { return p.Keys.Channel }

// Release is [Lock.Release].
func (p *Plain) Release(owner, publish string) lua.Call {
	return lua.Release.Call(p.Hash, p.Releases, owner, Publish(publish))
}

// ReleaseAfter is [Lock.ReleaseAfter].
func (p *Plain) ReleaseAfter(owner string, rest time.Duration, publish string) lua.Call {
	return lua.Leave.Call(p.Hash, p.Releases, owner, Millis(rest), Publish(publish))
}

// Renew is [Lock.Renew].
func (p *Plain) Renew(owner string, lease time.Duration) lua.Call {
	millis, ttl := p.Lease(lease)
	return lua.Renew.Call(p.Hash, p.Token, owner, millis, ttl)
}

// Recount is [Lock.Recount].
func (p *Plain) Recount(owner string, count int, lease time.Duration) lua.Call {
	millis, _ := p.Lease(lease)
	return lua.Recount.Call(p.Hash, owner, count, millis)
}

// State is [Protocol.State].
func (p *Plain) State() lua.Call { return lua.State.Call(p.Hash, p.Token) }

// Behind is some arguments of a script, and owners behind them.
func Behind(owners []string, args ...any) []any {
	all := append(make([]any, 0, len(args)+len(owners)), args...)
	for _, owner := range owners {
		all = append(all, owner)
	}
	return all
}

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
