package engine

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
)

// State is what users know as holdfast.State.
type State struct {
	Owner string // "<client uuid>:h<number>", Redisson's without the h; empty: free
	// hold count of Owner; where replies are lost, it may be that of before until the next
	// operation
	Count     int
	Remaining time.Duration // lease left; negative if the key has none, which only something foreign can cause
	// last fencing token granted, or reserved for a client that hands the lock on; 0: none known
	Token   uint64
	Waiters int // in the visible queue; -1 where the kind keeps none
}

// State asks the server who holds the lock, in one round trip. A hash of more than 128 fields is no
// lock, and an error. So is a hash without a time to live whose first field is no owner. Of a hash
// with a time to live the first field is taken for the owner, whatever it is.
func (b *Lock) State(ctx context.Context) (State, error) {
	o, err := b.Query(ctx, Reads, func(string) lua.Call { return b.protocol.State() })
	if err != nil {
		return State{}, err
	}
	r := o.Reply.State()
	if o.Reply.Status == lua.Done {
		if err := remote.InTheWay(r.Millis, r.Owner).Mistake(b.Key.Name); err != nil {
			return State{}, err
		}
	}
	_, queues := b.protocol.(kind.Queuer)
	return StateIn(r, queues), nil
}

// StateIn is what the server's answer to the question for the state says. Only a kind that queues has waiters.
func StateIn(r lua.StateReply, queues bool) State {
	s := State{
		Owner: remote.OwnerIn(r.Owner), Count: r.Count, Remaining: time.Duration(r.Millis) * time.Millisecond,
		Token: r.Token, Waiters: -1,
	}
	if queues {
		s.Waiters = r.Waiters
	}
	return s
}

// ForceUnlock frees the lock of whoever holds it, and wakes the waiters. It returns whether there
// was a holder.
//
// ForceUnlock asks who holds the lock and then releases that owner's. So it forces out one holder,
// and not the next one too when a reply is lost and the release is sent again. A hash whose first
// field is no owner is left alone, and is an error: it is not this library's to delete. An owner
// without a time to live is freed too.
//
// RenewNow ends the renewed holds of this client. Where a client hands the lock on among its
// goroutines, these are one owner. The goroutine that has the lock then, or is handed it within
// 10 ms, learns of the loss at its next renewal.
func (b *Lock) ForceUnlock(ctx context.Context) (bool, error) {
	state, err := b.Query(ctx, Reads, func(string) lua.Call { return b.protocol.State() })
	if err != nil || state.Reply.Status != lua.Done {
		return false, err
	}
	seen := state.Reply.State()
	if !remote.IsOwner(seen.Owner) {
		return false, panics.Repanic(errors.New("not released: " + remote.InTheWay(seen.Millis, seen.Owner).Text(0)))
	}
	released, err := b.Query(ctx, Changes, func(publish string) lua.Call { return b.wire.Release(seen.Owner, publish) })
	if err != nil {
		return false, err
	}
	b.RenewNow()
	b.recall(ctx, seen.Owner)
	if refused := released.Reply.Unannounced(); refused != "" {
		return true, Unheard(b, refused)
	}
	return true, nil
}

// Unheard is the error of a lock that was freed, where the announcement was refused.
func Unheard(b *Lock, refused string) error {
	return panics.Repanic(errors.New("released, but the waiters could not be told; " + ExplainUnannounced(b, refused)))
}

// recall calls the client of an owner that was forced out. If it keeps the lock without a holder, it
// learns of the loss before it takes the lock again. Nobody misses a call that fails: the next renewal
// tells the same.
func (b *Lock) recall(ctx context.Context, owner string) {
	p, recalls := b.wire.(kind.Callable)
	client, command := remote.Called(owner)
	if !recalls || client == "" {
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), b.Client.session.Budget(), remote.ErrBudget)
	defer cancel()
	_ = b.Client.rdb.Do(ctx, command, p.CallChannel(client), "1").Err()
}

// What a kind that is made of other locks has to know of them. It sees them as users do, so it asks
// them by the one thing that every lock passes on to here, also one that somebody has wrapped: the
// options. (Rejected: a method on the types of the kinds, which users would see.)

// IdentifyLock makes a call that only identifies its lock: it passes the lock to f, sends nothing and fails.
func IdentifyLock(f func(*Lock)) Option {
	return func(c *Settings) { c.identify = func(lock any) { f(lock.(*Lock)) } } // any: a Lock has Settings
}

// Part is the option of a call that is a part of another one, which began before its context ended. Then
// who leaves is told what is known of the lock, also if nothing was asked.
func Part() Option { return func(c *Settings) { c.part = true } }

// Same reports whether two are one lock, made twice. Two sides of a lock are not the same.
func (b *Lock) Same(other *Lock) bool { return b.Client == other.Client && b.Key == other.Key }

// Shares reports whether two are sides of one lock, or of two kinds under one name: an owner cannot
// hold both.
func (b *Lock) Shares(other *Lock) bool {
	return b.Client == other.Client && b.Key.Name == other.Key.Name && b.Key.Servers == other.Key.Servers
}

// Meets reports whether two of one name are, as far as that is known, at one server: a client's, or one of
// the masters that grant the lock together.
func (b *Lock) Meets(other *Lock) bool {
	for _, one := range append([]*Client{b.Client}, b.beside...) {
		for _, two := range append([]*Client{other.Client}, other.beside...) {
			if at := one.Where(); one == two || at != "" && at == two.Where() {
				return b.Key.Name == other.Key.Name
			}
		}
	}
	return false
}

// Again reports whether an owner can take the lock a second time.
func (b *Lock) Again() bool { return !b.traits.NoReentry }

// Home is the client, if its server alone grants the lock.
func (b *Lock) Home() *Client {
	if b.traits.Several {
		return nil
	}
	return b.Client
}

// CombiningClient is the same, if the client combines its commands; else nil.
func (b *Lock) CombiningClient() *Client {
	if home := b.Home(); home != nil && home.server.Gathers() {
		return home
	}
	return nil
}

// Where says where the lock is, in a way that other processes say it too if they reach the servers
// by the same addresses. It is empty if that is not known, as behind Sentinel.
func (b *Lock) Where() string {
	if several, ok := b.backend.(interface{ Where() string }); ok {
		return several.Where()
	}
	return b.Client.Where()
}

// Where is the address of the client's server, with the number of the database.
func (c *Client) Where() string {
	switch r := c.rdb.(type) {
	case *redis.Client:
		if o := r.Options(); o.Addr != behindSentinel {
			return o.Addr + "/" + strconv.Itoa(o.DB)
		}
	case *redis.ClusterClient:
		return strings.Join(slices.Sorted(slices.Values(r.Options().Addrs)), ",")
	}
	return ""
}

// behindSentinel is what go-redis shows for the address of a client that asks Sentinel.
const behindSentinel = "FailoverClient"

// Accepts returns why the lock refuses a call before anything is sent; nil if it does not.
func (b *Lock) Accepts(ctx context.Context, opts []Option) error {
	var cfg Settings
	if err := b.Configure(&cfg, opts); err != nil {
		return err
	}
	return errs.CheckContext(ctx)
}

// EndOf is when a call that begins now has to return, by its context and its options; zero: it may take any time, or
// the servers are asked once.
func (b *Lock) EndOf(ctx context.Context, opts []Option) time.Time {
	end, _ := ctx.Deadline()
	for _, list := range [][]Option{opts, b.defaults} { // the call's count before the lock's
		d, ok := Waits(list)
		if until := time.Now().Add(d); d > 0 && (end.IsZero() || until.Before(end)) {
			return until
		}
		if ok {
			break
		}
	}
	return end
}

// Waits is what [Wait] among some options says; ok is false if they say nothing of it.
func Waits(opts []Option) (d time.Duration, ok bool) {
	var cfg Settings
	for _, opt := range opts {
		if opt != nil {
			opt(&cfg)
		}
	}
	return cfg.wait, cfg.waitSet
}
