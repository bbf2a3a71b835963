package engine

import (
	"context"
	"errors"
	"strconv"
	"time"

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
	if r := o.Reply; r.Status == lua.Done {
		if err := remote.InTheWay(r.Int(2), r.Text(0)).Mistake(b.Key.Name); err != nil {
			return State{}, err
		}
	}
	_, queues := b.protocol.(kind.Queuer)
	return StateIn(o.Reply, queues), nil
}

// StateIn reads the answer to the question for the state.
func StateIn(r lua.Reply, queues bool) (s State) {
	at := 0 // of the token
	if r.Status == lua.Done {
		count, _ := strconv.Atoi(r.Text(1)) // a foreign field need not be a number; it holds the lock all the same
		s.Owner, s.Count, s.Remaining = remote.OwnerIn(r.Text(0)), count, time.Duration(r.Int(2))*time.Millisecond
		at = 3
	}
	s.Token, _ = strconv.ParseUint(r.Text(at), 10, 64)
	s.Waiters = -1
	if queues {
		s.Waiters = int(r.Int(at + 1))
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
	owner := state.Reply.Text(0)
	if !remote.IsOwner(owner) {
		return false, panics.Repanic(errors.New("not released: " + remote.InTheWay(state.Reply.Int(2), owner).Text(0)))
	}
	released, err := b.Query(ctx, Changes, func(publish string) lua.Call { return b.wire.Release(owner, publish) })
	if err != nil {
		return false, err
	}
	b.RenewNow()
	b.recall(ctx, owner)
	if refused := released.Reply.Text(0); refused != "" {
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
	p, recalls := b.wire.(kind.Recaller)
	client, command := remote.Called(owner)
	if !recalls || client == "" {
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), b.Client.session.Budget(), remote.ErrBudget)
	defer cancel()
	_ = b.Client.rdb.Do(ctx, command, p.Mailbox(client), "1").Err()
}
