package semaphore

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/fair"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/lua"
)

const kindName = "semaphore"

// redisson stands for Redisson's clients where the queue of a fair lock has one of its waiters: they
// say on the semaphore's own channel that permits came back.
const redisson = "redisson"

// protocol is that of a fair lock, of whose owners several may hold it at once.
type protocol struct {
	*fair.Protocol
	keys  keys.Permits
	boxed [8]any // the keys, in the order of the scripts, and boxed once: see [fair.Protocol]
	// permits is how many there are if the server knows of none yet, as text.
	permits any
}

var (
	_ fair.QueueProtocol = (*protocol)(nil)
	_ kind.Several       = (*protocol)(nil)
)

var claimMillis, keepMillis any = fair.Claim.Milliseconds(), kind.TokenTTL(0)

func newProtocol(name string, permits int) *protocol {
	k := keys.ForPermits(name)
	return &protocol{
		Protocol: fair.NewProtocol(kindName, name), keys: k, permits: permits,
		boxed: [...]any{k.Name, k.Ends, k.Token, k.Queue, k.Places, k.Wants, k.Channel, k.Counts},
	}
}

// call is a call of a script, which has the permits for its first argument.
func (p *protocol) call(s *lua.Script, args ...any) lua.Call {
	all := make([]any, 0, len(p.boxed)+1+len(args))
	all = append(append(all, p.boxed[:]...), p.permits)
	return s.Call(append(all, args...)...)
}

// Channel is [kind.Lock.Channel].
func (p *protocol) Channel() string { return p.keys.Channel }

// Mailbox is [fair.Protocol.Mailbox].
func (p *protocol) Mailbox(of string) string {
	if of == redisson {
		return p.keys.Channel
	}
	return p.keys.Channel + ":" + of
}

// Acquire is [kind.Protocol.Acquire].
func (p *protocol) Acquire(a kind.Ask) lua.Call {
	lease, ttl := p.Lease(a.Lease)
	return p.call(lua.SemAcquire, a.Owner, a.Count, lease, ttl, kind.Flag(a.Again), fair.PlaceMillis(a.Place), claimMillis,
		kind.Publish(a.Publish), a.Until)
}

// Join is [fair.Protocol.Join]. The owners want a permit each.
func (p *protocol) Join(waiting []fair.Waiting, publish string, until int64) lua.Call {
	return p.call(lua.SemJoin, fair.Behind(waiting, until, claimMillis, kind.Publish(publish), keepMillis)...)
}

// Poll is [fair.Protocol.Poll].
func (p *protocol) Poll(client, publish string, waiting []fair.Waiting) lua.Call {
	return p.call(lua.SemPoll, fair.Behind(waiting, client, kind.Publish(publish), claimMillis, keepMillis)...)
}

// Release is [kind.Lock.Release].
func (p *protocol) Release(owner, publish string) lua.Call { return p.ReleaseRun(owner, nil, publish) }

// ReleaseRun is [kind.Queuer.ReleaseRun]. Permits are not handed off in runs.
func (p *protocol) ReleaseRun(owner string, others []string, publish string) lua.Call {
	return p.call(lua.SemRelease, kind.Behind(others, owner, kind.Publish(publish), claimMillis, keepMillis)...)
}

// ReleaseAfter is never called: HoldAtLeast is refused.
func (p *protocol) ReleaseAfter(owner string, _ time.Duration, publish string) lua.Call {
	return p.Release(owner, publish)
}

// Renew is [kind.Lock.Renew], of one permit.
func (p *protocol) Renew(owner string, lease time.Duration) lua.Call {
	return p.RenewSeveral(owner, 1, lease)
}

// RenewSeveral is [kind.Several.RenewSeveral].
func (p *protocol) RenewSeveral(owner string, n int, lease time.Duration) lua.Call {
	millis, ttl := p.Lease(lease)
	k := &p.boxed
	return lua.SemRenew.Call(k[0], k[1], k[2], p.permits, owner, millis, ttl, n)
}

// Recount is [kind.Lock.Recount]. An owner has all of its permits or none, so there is nothing to count.
func (p *protocol) Recount(owner string, _ int, lease time.Duration) lua.Call {
	return p.Renew(owner, lease)
}

// State is [kind.Protocol.State].
func (p *protocol) State() lua.Call { return p.call(lua.SemState) }

// set says how many permits there are. Replies: Done, with the reason as text if waiters could not be told; or Late. this names
// the call, until is until when it may be executed, and more for how long it may be repeated, ms.
func (p *protocol) set(permits int, publish string, until int64, this string, more int64) lua.Call {
	return lua.SemSet.Call(append(p.boxed[:len(p.boxed):len(p.boxed)], permits, kind.Publish(publish), claimMillis, keepMillis,
		until, this, more)...)
}
