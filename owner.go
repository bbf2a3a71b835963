package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// WithOwner returns a context with a new owner of its own. All Lock calls under it are calls of
// that owner and re-enter, whether they come one after another or from several goroutines. Without
// WithOwner every Lock competes under a fresh owner, and only calls under the [Hold.Context]
// re-enter. A nil ctx stands for context.Background().
//
// A lock is re-entered by its own kind only. While an owner holds a name by one kind, Lock and
// TryLock of another kind of the same client return [ErrInvalid] for that name, because the owner
// would wait for itself. Locks that several masters grant do not notice this.
func WithOwner(ctx context.Context) context.Context { return engine.WithOwner(ctx) }
