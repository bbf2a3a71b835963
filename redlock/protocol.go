package redlock

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/lua"
)

const kindName = "redlock"

// protocol has a lock's keys, the same at every master, and makes the calls of its scripts.
type protocol struct {
	keys keys.Lock
	// The keys again, boxed once: go-redis takes arguments as any, and boxing a string anew for
	// each call allocates.
	name, channel, token any
	boxes                kind.Boxes
}

var _ kind.Voter = (*protocol)(nil)

func newProtocol(name string) *protocol {
	k := keys.For(name)
	return &protocol{keys: k, name: k.Name, channel: k.Channel, token: k.Token}
}

func (p *protocol) Kind() string    { return kindName }
func (p *protocol) Name() string    { return p.keys.Name }
func (p *protocol) Channel() string { return p.keys.Channel }

func (p *protocol) Vote(owner string, count int, lease time.Duration, token uint64, until int64) lua.Call {
	millis, ttl := p.boxes.Lease(lease)
	return lua.Vote.Call(p.name, p.token, owner, millis, ttl, count, strconv.FormatUint(token, 10), until)
}

func (p *protocol) Release(owner, publish string) lua.Call {
	return lua.Release.Call(p.name, p.channel, owner, kind.Publish(publish))
}

func (p *protocol) ReleaseAfter(owner string, rest time.Duration, publish string) lua.Call {
	return lua.Leave.Call(p.name, p.channel, owner, kind.Millis(rest), kind.Publish(publish))
}

func (p *protocol) Renew(owner string, lease time.Duration) lua.Call {
	millis, ttl := p.boxes.Lease(lease)
	return lua.Renew.Call(p.name, p.token, owner, millis, ttl)
}

func (p *protocol) Recount(owner string, count int, lease time.Duration) lua.Call {
	millis, _ := p.boxes.Lease(lease)
	return lua.Recount.Call(p.name, owner, count, millis)
}

func (p *protocol) Force(owner, publish string, seen uint64) lua.Call {
	return lua.Force.Call(p.name, p.token, p.channel, owner, kind.Publish(publish), kind.TokenTTL(0),
		strconv.FormatUint(seen, 10))
}

func (p *protocol) State() lua.Call { return lua.State.Call(p.name, p.token) }
