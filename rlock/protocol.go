package rlock

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/lua"
)

const kindName = "rlock"

// protocol makes the calls of a lock's scripts.
type protocol struct{ kind.Plain }

var (
	_ kind.Callable  = (*protocol)(nil)
	_ kind.Neighbour = (*protocol)(nil)
)

func newProtocol(name string) *protocol { return &protocol{kind.NewPlain(name)} }

func (*protocol) Kind() string { return kindName }

// BesideStrings is [kind.Neighbour].
func (*protocol) BesideStrings() {}

func (p *protocol) CallChannel(client string) string { return p.Keys.Mailbox(client) }

func (p *protocol) Acquire(a kind.Ask) lua.Call {
	lease, ttl := p.Lease(a.Lease)
	acquire, headStart := lua.Acquire, lua.HeadStart
	if a.Strings {
		acquire, headStart = lua.AcquireBeside, lua.HeadStartBeside
	}
	if ends := max(a.HeadStart, a.Ends); ends > 0 {
		return headStart.Call(p.Hash, p.Token, p.Releases, a.Owner, lease, ttl, kind.Flag(a.Again), a.Tokens, a.Until,
			kind.Millis(a.HeadStart), kind.Millis(ends))
	}
	return acquire.Call(p.Hash, p.Token, a.Owner, lease, ttl, kind.Flag(a.Again), a.Tokens, a.Until)
}

func (p *protocol) KeepOrRelease(owner string, lease time.Duration, tokens int, publish string) lua.Call {
	return lua.Pass.Call(p.Hash, p.Token, p.Releases, owner, kind.Millis(lease), kind.TokenTTL(lease), publish, tokens)
}
