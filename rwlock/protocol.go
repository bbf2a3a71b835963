package rwlock

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/lua"
)

const kindName = "rwlock"

// place is for how long the server remembers a writer that waits, after its last command. While it
// does, new readers wait, so it is what a writer that died costs them.
const place = 5 * time.Second

// looks is after how long a reader looks again that one of Redisson's writers keeps out. Redisson
// announces nothing when who writes and reads stops to write.
const looks = 2 * time.Second

// protocol has a lock's keys. It makes the calls of the scripts that both sides share.
type protocol struct {
	keys keys.ReadWrite
	// The keys again, boxed once: go-redis takes arguments as any, and boxing a string anew for
	// each call allocates.
	name, channel, token, writers any
	boxes                         kind.Boxes
}

func newProtocol(name string) *protocol {
	k := keys.ForReadWrite(name)
	return &protocol{keys: k, name: k.Name, channel: k.Channel, token: k.Token, writers: k.Writers}
}

func (p *protocol) Kind() string    { return kindName }
func (p *protocol) Name() string    { return p.keys.Name }
func (p *protocol) Channel() string { return p.keys.Channel }
func (p *protocol) State() lua.Call { return lua.RwState.Call(p.name, p.token, p.writers) }

// force frees the lock of some readers.
func (p *protocol) force(readers []string, publish string) lua.Call {
	return lua.RwForce.Call(kind.Behind(readers, p.name, p.channel, "-", kind.Publish(publish))...)
}

// writing is the protocol of who writes.
type writing struct{ *protocol }

var (
	_ kind.Placer = writing{}
	_ kind.Sided  = writing{}
)

func (writing) Side() string { return "" }

// Places is [kind.Placer.Places]: a writer that waits keeps new readers out.
func (writing) Places() kind.Places {
	return kind.Places{Refusal: lua.Reply.RwRefusal, Longest: place, Kept: place}
}

func (p writing) Acquire(a kind.Ask) lua.Call {
	var kept any = "0"
	if a.Place > 0 {
		kept = min(kind.Millis(a.Place), place.Milliseconds())
	}
	lease, ttl := p.boxes.Lease(a.Lease)
	return lua.RwWrite.Call(p.name, p.token, p.writers, a.Owner, lease, ttl, kind.Flag(a.Again), a.Until, kept)
}

func (p writing) Release(owner, publish string) lua.Call {
	return lua.RwWriteRelease.Call(p.name, p.channel, p.writers, owner, kind.Publish(publish))
}

func (p writing) ReleaseAfter(owner string, rest time.Duration, publish string) lua.Call {
	return lua.RwLeave.Call(p.name, p.channel, owner, kind.Millis(rest), kind.Publish(publish))
}

func (p writing) Renew(owner string, lease time.Duration) lua.Call {
	return lua.Renew.Call(p.name, p.token, field(owner), kind.Millis(lease), kind.TokenTTL(lease))
}

func (p writing) Recount(owner string, count int, lease time.Duration) lua.Call {
	return lua.Recount.Call(p.name, field(owner), count, kind.Millis(lease))
}

// field is what an owner that writes is called in the hash.
func field(owner string) string { return owner + writes }

const writes = ":write"

// reading is the protocol of who reads.
type reading struct{ *protocol }

var (
	_ kind.Placer = reading{}
	_ kind.Sided  = reading{}
)

func (reading) Side() string { return kind.Reading }

// Places is [kind.Placer.Places]: a reader has no place, but a ticket. A writer looks in good time anyway, to keep its place.
func (reading) Places() kind.Places { return kind.Places{Refusal: lua.Reply.RwRefusal, Foreign: looks} }

func (p reading) Acquire(a kind.Ask) lua.Call {
	lease, ttl := p.boxes.Lease(a.Lease)
	return lua.RwRead.Call(p.name, p.token, p.writers, p.keys.Reader(a.Owner), a.Owner, lease, ttl, a.Until, a.Ticket,
		a.Beside)
}

func (p reading) Release(owner, publish string) lua.Call {
	return lua.RwReadRelease.Call(p.name, p.channel, p.keys.Reader(owner), owner, kind.Publish(publish))
}

// ReleaseAfter is never called: HoldAtLeast is refused.
func (p reading) ReleaseAfter(owner string, _ time.Duration, publish string) lua.Call {
	return p.Release(owner, publish)
}

func (p reading) Renew(owner string, lease time.Duration) lua.Call { return p.renew(owner, 0, lease) }

func (p reading) Recount(owner string, count int, lease time.Duration) lua.Call {
	return p.renew(owner, count, lease)
}

func (p reading) renew(owner string, count int, lease time.Duration) lua.Call {
	millis, ttl := p.boxes.Lease(lease)
	return lua.RwReadRenew.Call(p.name, p.token, p.keys.Reader(owner), owner, millis, ttl, count)
}
