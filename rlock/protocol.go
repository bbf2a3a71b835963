package rlock

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/lua"
)

const kindName = "rlock"

// protocol has a lock's keys and makes the calls of its scripts.
type protocol struct {
	keys keys.Lock
	// The keys again, boxed once: go-redis takes arguments as any, and boxing a string anew for
	// each call allocates.
	name, channel, token any
	boxes                kind.Boxes
}

var (
	_ kind.Callable  = (*protocol)(nil)
	_ kind.Neighbour = (*protocol)(nil)
)

func newProtocol(name string) *protocol {
	k := keys.For(name)
	return &protocol{keys: k, name: k.Name, channel: k.Channel, token: k.Token}
}

func (p *protocol) Kind() string    { return kindName }
func (p *protocol) Name() string    { return p.keys.Name }
func (p *protocol) Channel() string { return p.keys.Channel }

// BesideStrings is [kind.Neighbour].
func (*protocol) BesideStrings() {}

func (p *protocol) CallChannel(client string) string { return p.keys.Mailbox(client) }

func (p *protocol) Acquire(a kind.Ask) lua.Call {
	lease, ttl := p.boxes.Lease(a.Lease)
	acquire, headStart := lua.Acquire, lua.HeadStart
	if a.Strings {
		acquire, headStart = lua.AcquireBeside, lua.HeadStartBeside
	}
	if ends := max(a.HeadStart, a.Ends); ends > 0 {
		return headStart.Call(p.name, p.token, p.channel, a.Owner, lease, ttl, kind.Flag(a.Again), a.Tokens,
			a.Until,
			kind.Millis(a.HeadStart), kind.Millis(ends))
	}
	return acquire.Call(p.name, p.token, a.Owner, lease, ttl, kind.Flag(a.Again), a.Tokens, a.Until)
}

func (p *protocol) Recount(owner string, count int, lease time.Duration) lua.Call {
	return lua.Recount.Call(p.name, owner, count, kind.Millis(lease))
}

func (p *protocol) Release(owner, publish string) lua.Call {
	return lua.Release.Call(p.name, p.channel, owner, kind.Publish(publish))
}

func (p *protocol) ReleaseAfter(owner string, rest time.Duration, publish string) lua.Call {
	return lua.Leave.Call(p.name, p.channel, owner, kind.Millis(rest), kind.Publish(publish))
}

func (p *protocol) Renew(owner string, lease time.Duration) lua.Call {
	return lua.Renew.Call(p.name, p.token, owner, kind.Millis(lease), kind.TokenTTL(lease))
}

func (p *protocol) KeepOrRelease(owner string, lease time.Duration, tokens int, publish string) lua.Call {
	return lua.Pass.Call(p.name, p.token, p.channel, owner, kind.Millis(lease), kind.TokenTTL(lease), publish, tokens)
}

func (p *protocol) State() lua.Call { return lua.State.Call(p.name, p.token) }
