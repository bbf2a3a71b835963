package rlock

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/lua"
)

const kindName = "rlock"

// protocol is a lock's keys and how its scripts take them.
type protocol struct {
	keys keys.Lock
	// The keys again, boxed once: go-redis takes arguments as any, and boxing a string anew for each call allocates.
	name, channel, token any
	boxes                kind.Boxes
}

var _ kind.Hander = (*protocol)(nil)

func newProtocol(name string) *protocol {
	k := keys.For(name)
	return &protocol{keys: k, name: k.Name, channel: k.Channel, token: k.Token}
}

func (p *protocol) Kind() string    { return kindName }
func (p *protocol) Name() string    { return p.keys.Name }
func (p *protocol) Channel() string { return p.keys.Channel }

func (p *protocol) Acquire(a kind.Ask) lua.Call {
	lease, ttl := p.boxes.Lease(a.Lease)
	if a.Tokens > 1 {
		return lua.Acquire.Call(p.name, p.token, a.Owner, lease, ttl, kind.Flag(a.Again), a.Tokens)
	}
	return lua.Acquire.Call(p.name, p.token, a.Owner, lease, ttl, kind.Flag(a.Again))
}

func (p *protocol) Recount(owner kind.Names, count int, lease time.Duration) lua.Call {
	return lua.Recount.Call(owner.Args(p.name, owner[0], count, kind.Millis(lease))...)
}

func (p *protocol) Release(owner kind.Names, publish string) lua.Call {
	return lua.Release.Call(owner.Args(p.name, p.channel, owner[0], kind.Publish(publish))...)
}

func (p *protocol) Renew(owner kind.Names, name string, lease time.Duration) lua.Call {
	if name == "" && len(owner) == 1 {
		return lua.Renew.Call(p.name, p.token, owner[0], kind.Millis(lease), kind.TokenTTL(lease))
	}
	return lua.Renew.Call(owner.Args(p.name, p.token, owner[0], kind.Millis(lease), kind.TokenTTL(lease), name)...)
}

func (p *protocol) Pass(owner kind.Names, lease time.Duration, tokens int, publish string) lua.Call {
	return lua.Pass.Call(owner.Args(p.name, p.token, p.channel, owner[0], kind.Millis(lease), kind.TokenTTL(lease), publish, tokens)...)
}

func (p *protocol) State() lua.Call { return lua.State.Call(p.name, p.token) }
