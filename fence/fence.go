// Package fence lets a store check fencing tokens. The store that a lock protects then refuses late
// writes of earlier holders.
//
// A process may be paused for longer than its lease, or Redis may forget a grant. No lock can keep
// such a late holder from sending its write. But each grant of a lock has a greater token than all
// grants before it. A store that remembers the greatest token it has seen, and refuses writes with
// a smaller one, is safe from late writes. (M. Kleppmann, "How to do distributed locking", 2016.)
//
// The token travels in the context of the hold: [Token] reads it, so the functions in between need
// no further parameter. [SQL] guards a transaction, and [Redis] guards a command. An equal token
// passes, because re-entries have the same token, and because a holder may write more than once.
//
// # What is not promised
//
// That the lock is held. A late holder may still write until a newer holder has reached the store,
// because the store has seen no greater token. So a holder that reads, computes and writes must
// check before it reads, or write only what does not depend on the read.
//
// Anything about writes that go around the guard, or after the store has lost data. A guard is as
// durable as the store that it is in.
//
// Any order between the tokens of different locks. One lock guards one resource. Under nested holds
// of several locks, and under the hold of a multilock, a guard refuses to choose a token
// ([ErrSeveralLocks]): choose it by [TokenOf]. Otherwise a late holder of the outer lock could pass
// the guard with the fresh token of an inner lock.
//
// That every permit holder passes a guard. Each holder of permits has a token of its own, so a
// store that has seen a later token refuses holders with earlier ones.
package fence

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/held"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// ErrStale says that the store has seen a greater token: a later holder has written since.
// Errors that wrap it are [*StaleError] and name both tokens.
var ErrStale = errors.New("stale fencing token")

// ErrNoToken says that a context belongs to no hold. Pass on the Context of the hold, or a context
// that derives from it.
var ErrNoToken = errors.New("fence: the context carries no fencing token; pass on the context of the hold")

// ErrSeveralLocks says that a context belongs to holds of several locks. Their tokens have no
// order. Take the token of the lock that guards the resource by [TokenOf], and pass it to
// [SQL.CheckToken] or [Redis.DoToken]. Locks of one name on different servers are different locks
// too; take the token from [holdfast.Hold.Token] there.
var ErrSeveralLocks = errors.New("the context belongs to holds of several locks")

// errZero refuses a token that the caller forgot to set. No grant has the token 0.
var errZero = errors.New("fence: token is 0, which no hold has; pass on the token of the hold")

// StaleError says that the guard refused a write, and wrote nothing. errors.Is is true for [ErrStale].
type StaleError struct {
	Resource string
	Token    uint64 // the token that was refused
	Last     uint64 // the greatest token that the store has seen
}

// Error names both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("fence: %v: %s has seen %d, and this one is %d", ErrStale, printable.Quote(e.Resource), e.Last, e.Token)
}

// Unwrap is for errors.Is.
func (e *StaleError) Unwrap() error { return ErrStale }

// Token is the fencing token of the hold that the context belongs to, the innermost hold if there
// are several. ok is false if there is none. Under the hold of a multilock it is the token of any
// member: use [TokenOf] there. Token also works after the hold has ended: the store decides whether
// the token still counts.
func Token(ctx context.Context) (token uint64, ok bool) {
	if ctx == nil {
		return 0, false
	}
	return tokenOf(held.From(ctx))
}

// TokenOf is Token for the lock of that name, even if the context also belongs to holds of other
// locks inside it. Pass the token to [SQL.CheckToken] or [Redis.DoToken]. ok is also false if the
// context holds several locks of that name, of different clients.
func TokenOf(ctx context.Context, lock string) (token uint64, ok bool) {
	if ctx == nil {
		return 0, false
	}
	return tokenOf(held.From(ctx).Of(lock))
}

// only returns the token of the context's lock, and an error unless there is exactly one lock.
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

// because makes an error printable, and adds the cause to one that says only that a context ended. The
// cause is a lost lock, for example.
func because(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) || !errors.Is(err, ctx.Err()) {
		return printable.Error(err)
	}
	return printable.Error(fmt.Errorf("%w: %w", err, cause))
}

func tokenOf(h *held.Hold) (token uint64, ok bool) {
	if h == nil {
		return 0, false
	}
	return h.Token, true
}
