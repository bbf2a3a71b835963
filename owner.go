package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// WithOwner returns a context with a new owner. All Lock calls under that context are calls of this
// owner and re-enter, whether they come one after another or from several goroutines. Without
// WithOwner every Lock competes under a fresh owner, and only calls under a [Hold.Context]
// re-enter. A nil ctx means context.Background().
//
// Only a lock of the same kind re-enters. If an owner holds a name by one kind, Lock and TryLock of
// another kind on the same client return [ErrInvalid] for that name, because the owner would wait
// for itself. Locks that several masters grant do not notice this. Permits of a semaphore and
// campaigns of an election are never re-entered: each is an owner of its own.
func WithOwner(ctx context.Context) context.Context { return engine.WithOwner(ctx) }
