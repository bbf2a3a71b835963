package redlock

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/lua"
)

const kindName = "redlock"

// protocol makes the calls of a lock's scripts. Its keys are the same at every master.
type protocol struct{ kind.Plain }

var _ kind.Voter = (*protocol)(nil)

func newProtocol(name string) *protocol { return &protocol{kind.NewPlain(name)} }

func (*protocol) Kind() string { return kindName }

func (p *protocol) Vote(owner string, count int, lease time.Duration, token uint64, until int64) lua.Call {
	millis, ttl := p.Lease(lease)
	return lua.Vote.Call(p.Hash, p.Token, owner, millis, ttl, count, strconv.FormatUint(token, 10), until)
}

func (p *protocol) Force(owner, publish string, seen uint64) lua.Call {
	return lua.Force.Call(p.Hash, p.Token, p.Releases, owner, kind.Publish(publish), kind.TokenTTL(0),
		strconv.FormatUint(seen, 10))
}
