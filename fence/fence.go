// Package fence is the other half of the fencing token: the store that a lock protects refuses a
// holder who comes late.
//
// A process may be paused for longer than its lease, or Redis may forget what it granted, and no
// lock can keep the late holder from sending its write. But each grant of a lock has a greater
// token than all before it. A store that remembers the greatest one that it has seen refuses what
// comes with a smaller one, and then the late write does no harm. (M. Kleppmann, "How to do
// distributed locking", 2016.)
//
// The token travels in the context of the hold: [Token] reads it, so the functions in between need
// no further parameter. [SQL] guards what a transaction does, [Redis] a command. An equal token
// passes: re-entries have the same one, and a holder may write often.
//
// # What is not promised
//
// That the lock is held. A late holder whom nobody has overtaken may write: the store has heard of
// nobody else since. So a holder that reads, computes and writes must check before it reads, or
// write what does not depend on it.
//
// Anything about writes that go around the guard, or about what was seen if the store itself
// forgets: a guard is as durable as the store that it is in.
//
// Any order between the tokens of different locks. One resource is guarded by one lock. Under
// nested holds of several locks a guard refuses to choose one ([ErrSeveralLocks]): say which one by
// [TokenOf]. The token of an inner lock, which a late holder has just got, would let it past those
// who have overtaken it.
package fence

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/held"
)

// ErrStale says that the store has seen a greater token: another holder has been there since.
// Errors that wrap it are [*StaleError] and name both tokens.
var ErrStale = errors.New("stale fencing token")

// ErrNoToken says that a context belongs to no hold. Pass on the Context of the hold, or a context
// that derives from it.
var ErrNoToken = errors.New("the context carries no fencing token; pass on the context of the hold")

// ErrSeveralLocks says that a context belongs to holds of several locks. Their tokens have no
// order, so say which lock guards the resource: take its token by [TokenOf], and pass that to
// [SQL.CheckToken] or [Redis.DoToken]. Locks of one name on different servers are several too;
// their tokens are told by their holds.
var ErrSeveralLocks = errors.New("the context belongs to holds of several locks")

// errZero is for a token that somebody forgot to fill in: no grant has it.
var errZero = errors.New("fence: token is 0, which no hold has; pass on the token of the hold")

// StaleError is a refusal: nothing was written. errors.Is is true for [ErrStale].
type StaleError struct {
	Resource string
	Token    uint64 // of the one who was refused
	Last     uint64 // the greatest that the store has seen
}

// Error names both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("%v: %q has seen %d, and this one is %d", ErrStale, e.Resource, e.Last, e.Token)
}

// Unwrap is for errors.Is.
func (e *StaleError) Unwrap() error { return ErrStale }

// Token is the fencing token of the hold that the context belongs to, the innermost one if there
// are several; ok is false if there is none. It can be read also when the hold has ended: whether
// it still counts is for the store to say.
func Token(ctx context.Context) (token uint64, ok bool) {
	if ctx == nil {
		return 0, false
	}
	return tokenOf(held.From(ctx))
}

// TokenOf is Token for the lock of that name, whatever other locks the context holds within it.
// Give it to [SQL.CheckToken] or [Redis.DoToken]. ok is false too if the context holds several
// locks of that name, of different clients.
func TokenOf(ctx context.Context, lock string) (token uint64, ok bool) {
	if ctx == nil {
		return 0, false
	}
	return tokenOf(held.From(ctx).Of(lock))
}

// only is the token of the only lock that the context holds.
func only(ctx context.Context) (uint64, error) {
	token, ok := Token(ctx)
	if !ok {
		return 0, ErrNoToken
	}
	if locks := held.From(ctx).Locks(); len(locks) > 1 {
		return 0, fmt.Errorf("fence: %w (%q); take the token of the one that guards this resource, by TokenOf or from its hold, and pass it to CheckToken or DoToken",
			ErrSeveralLocks, locks)
	}
	return token, nil
}

// because adds to an error that says no more than that a context ended why it did: a lost lock, for
// example.
func because(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) || !errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

func tokenOf(h *held.Hold) (token uint64, ok bool) {
	if h == nil {
		return 0, false
	}
	return h.Token, true
}
