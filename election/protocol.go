package election

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/fair"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

const kindName = "election"

// protocol is that of a fair lock, whose releases and renewals also see to the announcement.
type protocol struct {
	*fair.Protocol
	said, channel string // the key of the announcement, and where changes are told
	last          atomic.Pointer[announcement]
}

// announcement is what a leader said of itself, as it stands in Redis.
type announcement struct{ owner, text string }

var _ fair.QueueProtocol = (*protocol)(nil)

func newProtocol(name string) *protocol {
	said, channel := keys.Election(name)
	return &protocol{Protocol: fair.NewProtocol(kindName, name), said: said, channel: channel}
}

// Release is [kind.Lock.Release].
func (p *protocol) Release(owner, publish string) lua.Call { return p.ReleaseRun(owner, nil, publish) }

// ReleaseRun is [kind.Queuer.ReleaseRun].
func (p *protocol) ReleaseRun(owner string, served []string, publish string) lua.Call {
	k := &p.Keys
	return lua.ElectionRelease.Call(kind.Behind(served, k.Name, k.Token, k.Queue, k.Deadlines, k.Channel, p.said, p.channel,
		owner, kind.Publish(publish), fair.Claim.Milliseconds(), kind.TokenTTL(0))...)
}

// Renew is [kind.Lock.Renew]. It has the announcement with it, in case Redis has lost that alone.
func (p *protocol) Renew(owner string, lease time.Duration) lua.Call {
	args := []any{p.Keys.Name, p.Keys.Token, p.said, owner, kind.Millis(lease), kind.TokenTTL(lease)}
	if last := p.last.Load(); last != nil && last.owner == owner {
		args = append(args, last.text)
	}
	return lua.ElectionRenew.Call(args...)
}

// announced notes what a leader has said, for its renewals.
func (p *protocol) announced(owner, token, value string) {
	p.last.Store(&announcement{owner, token + " " + owner + " " + value})
}

// announce says what a leader says of itself. It is harmless when repeated. Replies: Done, with the
// reason as text if observers could not be told; or Gone.
func (p *protocol) announce(owner, token, value string, lease time.Duration, publish string) lua.Call {
	return lua.ElectionAnnounce.Call(p.Keys.Name, p.said, p.channel, owner, token, value, kind.TokenTTL(lease),
		kind.Publish(publish))
}

// leader asks who leads. Replies: Done, owner, token, value and the milliseconds left; or Denied.
func (p *protocol) leader() lua.Call { return lua.ElectionLeader.Call(p.Keys.Name, p.said) }

// newLock makes the lock of a fair one's server. An owner is a single term, so what it says late is never taken for the
// word of its next one. Nor is a term handed off within the process: its successor has to announce itself.
func newLock(c *engine.Client, p *protocol, opts []engine.Option) *engine.Lock {
	b := fair.NewLock(c, p, opts...)
	b.Refine(func(t *engine.Traits) {
		t.NoReentry, t.HandsOff = true, false
		t.NoAtLeast = "a leader that resigns makes room for the next; leave the option out"
	}, func(err error) error {
		return remote.Explain(err, p.Keys.Name, "an election", p.Keys.Token, p.Keys.Queue, p.Keys.Deadlines, p.said)
	})
	return b
}
