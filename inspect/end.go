package inspect

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// The reasons why End did not end a hold. In both cases End changed nothing.
var (
	// ErrStale says that the lock has another owner, or another grant, than the one in Grant.
	ErrStale = errors.New("somebody else has it")
	// ErrFree says that nobody has the lock.
	ErrFree = errors.New("nobody has it")
)

// Grant names a hold. Set one field at least. If both are set, both must fit.
type Grant struct {
	Owner string // of the lock, as [Holder] has it
	// Token is the last token of the lock, as [Lock] has it. It stands for one grant, and not for the
	// next one of the same owner. Readers have no token, and neither has one permit of several.
	Token uint64
}

// Ended is what End did.
type Ended struct {
	Kind   Kind
	Holder Holder
	// Until is how long it takes at most until the holder knows: a client of this library does not trust
	// its hold for longer than the lease that it had. Mostly it learns at its next renewal, within a third
	// of the lease. Negative: not known. A client of Redisson does not learn of the end; its unlock fails.
	Until time.Duration
	// Untold is why the server could not wake the waiters; empty if it could. The waiters find out when
	// the lease that they know of ends, or at their next poll.
	Untold string
}

// claim is for how long a fair lock that is handed off stays the next one's if that one sends
// nothing, as it is after a release.
const claim = 2 * time.Second

// End takes the lock from one holder, and wakes the waiters. It takes a read-write lock from one
// reader or the writer, and all permits of a semaphore from one owner. A holder that is still alive
// works on until it learns of its loss. Only fencing tokens protect from that.
//
// End reads the lock, and then sends the server the owner, and the token if Grant has one. The server
// frees the lock of that owner and token, or changes nothing. If no answer comes, the error says that
// the hold may have been ended.
//
// End frees one master's part of a quorum lock like any lock. Its holder finds out, and keeps the lock
// if a majority of the masters still says so.
func (i *Inspector) End(ctx context.Context, name string, g Grant) (_ Ended, err error) {
	defer func() { err = printable.Error(err) }()
	if g == (Grant{}) {
		return Ended{}, errors.New("name the owner, or the token, of the hold that is to end")
	}
	l, err := i.Lock(ctx, name)
	if err != nil {
		return Ended{}, err
	}
	h, err := l.meant(g)
	if err != nil {
		return Ended{}, err
	}
	reply, err := lua.Run(ctx, i.rdb, i.ending(&l, h, g))
	switch {
	case err != nil && !isReply(err) && !lua.IsUnsent(err):
		return Ended{}, fmt.Errorf("no answer, so the hold may have ended or not, look again: %w", err)
	case err != nil:
		return Ended{}, err
	case reply.Status == lua.Gone && l.Kind != ReadWrite && l.Kind != Semaphore:
		return Ended{}, fmt.Errorf("%w any more", ErrFree)
	case reply.Status == lua.Gone:
		return Ended{}, fmt.Errorf("%w now, and %s has not", ErrStale, printable.Name(h.Owner))
	case reply.Status != lua.Done:
		return Ended{}, fmt.Errorf("%w now: the last token is %s", ErrStale, printable.Name(reply.Force().Token))
	}
	i.tell(ctx, &l, h)
	e := Ended{Kind: l.Kind, Holder: h, Until: h.Remaining, Untold: printable.Line(reply.Force().Unannounced)}
	if h.Redisson {
		e.Until = -1
	}
	return e, nil
}

// meant finds the holder.
func (l *Lock) meant(g Grant) (Holder, error) {
	switch {
	case l.Kind == Foreign:
		return Holder{}, errors.New(l.Problems[0].Text)
	case l.Kind == Latch:
		return Holder{}, errors.New("it looks like a latch, which nobody holds; Delete of package latch opens it")
	case len(l.Holders) == 0 && !l.More:
		return Holder{}, ErrFree
	case g.Token != 0 && g.Token != l.Token:
		return Holder{}, fmt.Errorf("%w: %s, and the last token is %d", ErrStale, l.who(), l.Token)
	case g.Owner == "" && (l.Kind == ReadWrite && l.Holders[0].Mode == Read || l.Kind == Semaphore && (len(l.Holders) > 1 || l.More)):
		return Holder{}, errors.New("the token stands for the last grant, and others may have it too: name the owner")
	case g.Owner == "":
		return l.Holders[0], nil
	}
	for _, h := range l.Holders {
		if g.Owner == h.Owner || g.Owner == h.Raw {
			return h, nil
		}
	}
	if l.More && (l.Kind == Semaphore || !strange(g.Owner)) {
		h := holder(g.Owner, 1, -1)
		if l.Kind == ReadWrite {
			h.Mode = Read
		}
		return h, nil // the server knows
	}
	return Holder{}, fmt.Errorf("%w: %s", ErrStale, l.who())
}

// who says who has it.
func (l *Lock) who() string {
	if len(l.Holders) == 0 {
		return "nobody is listed"
	}
	first := printable.Name(l.Holders[0].Owner)
	if n := len(l.Holders); n > 1 {
		return fmt.Sprintf("%s, and %d more", first, n-1)
	}
	return first
}

// ending is the call that ends a hold.
func (i *Inspector) ending(l *Lock, h Holder, g Grant) lua.Call {
	token := ""
	if g.Token != 0 {
		token = strconv.FormatUint(g.Token, 10)
	}
	publish := i.publish()
	switch l.Kind {
	case ReadWrite:
		k := keys.ForReadWrite(l.Name)
		if h.Mode == Read {
			return lua.RwForce.Call(k.Name, k.Channel, "-", publish, h.Raw)
		}
		return lua.RwForceWriter.Call(k.Name, k.Channel, k.Writers, k.Token, h.Raw, publish, token)
	case Semaphore:
		k := keys.ForPermits(l.Name)
		all := int64(0) // if the number is gone: what is out is all that is known
		if l.Permits != nil {
			all = max(l.Permits.All, l.Permits.Out)
		}
		return lua.SemForce.Call(k.Name, k.Ends, k.Token, k.Queue, k.Places, k.Wants, k.Channel, k.Counts,
			all, h.Raw, publish, claim.Milliseconds(), kind.TokenTTL(0), token)
	}
	k := keys.For(l.Name)
	said, channel := keys.Election(l.Name)
	return lua.ForceOwner.Call(k.Name, k.Token, k.Queue, k.Deadlines, k.Channel, said, channel,
		h.Raw, publish, claim.Milliseconds(), kind.TokenTTL(0), token)
}

// publish is the command by which clients announce.
func (i *Inspector) publish() string {
	switch {
	case i.sharded():
		return "SPUBLISH"
	case i.cluster != nil && i.cluster.Options().ClusterSlots == nil:
		return lua.PublishClassic
	}
	return "PUBLISH"
}

// tell calls a client that keeps the lock without a holder, as ForceUnlock of a kind does. In a
// cluster it also wakes those who listen for classic messages. Nobody misses a call that fails: what
// it says is found out a little later.
func (i *Inspector) tell(ctx context.Context, l *Lock, h Holder) {
	if client, command := remote.Called(h.Raw); client != "" {
		_ = i.rdb.Do(ctx, strings.ToLower(command), keys.For(l.Name).Mailbox(client), "1").Err()
	}
	if i.sharded() {
		channel, text := keys.For(l.Name).Channel, "0"
		switch l.Kind {
		case ReadWrite:
			channel, text = keys.ForReadWrite(l.Name).Channel, "1"
		case Semaphore:
			return
		}
		_ = i.rdb.Publish(ctx, channel, text).Err()
	}
}
