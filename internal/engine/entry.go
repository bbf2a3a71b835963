package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/remote"
)

// Entry is what one owner has at the server, or at several masters of which the majority decides,
// or may have.
type Entry interface {
	// Owner is the owner as the server knows it, "<uuid>:h<n>".
	Owner() string
	// Set tells the hold count, and makes the lease last at least so long. It counts when the
	// replicas have it that are wanted; if too few have, that is an error, and the count stands: it
	// is the caller's to take it back. It is an [remote.Action].
	Set(ctx context.Context, count int, lease time.Duration, want remote.Replicas,
		failed *atomic.Pointer[error]) remote.Outcome
	// Extend makes the lease last at least so long from now. It is an [remote.Action].
	Extend(ctx context.Context, lease time.Duration, failed *atomic.Pointer[error]) remote.Outcome
	// Pass keeps the lock for this client's next holder, or releases it if others want it. The
	// outcome is as [kind.Hander] has it.
	Pass(ctx context.Context, lease time.Duration, tokens int) remote.Outcome
	// Release gives the lock back, or has it stay for the rest of its time, if there is any. Each
	// attempt asks for that anew. The caller cannot cancel it.
	Release(ctx context.Context, rest func() time.Duration) remote.Outcome
	// LossCause is what is known of how the lock was lost; nil if no more than that it is.
	LossCause() error
	// Undo gives back what may have been granted to an owner that is not used any more, nor will
	// be. That is done in the background; Close waits for it. Without a straggler one release is
	// enough.
	Undo(lease time.Duration, stray bool)
	// Abandon is undo where something may stand, or come to stand, unless that is being given back
	// already. What is to stay taken is given back when the rest of its time is over.
	Abandon(rest func() time.Duration, lease time.Duration)

	// The rest is as [Uncertainty] has it.

	MarkStray()
	LeaveUndo()
	IsStray() bool
	SetPlaced(placed bool)
	noteTokens(last uint64)
	noteUnheard()
	tainted() bool
	serve(id string)
}

// permitted is an [Entry] of a kind whose owners may have several permits.
type permitted interface {
	// permits says how many the owner has, before the grant is live.
	permits(n int)
}

// Nothing is the rest of a lock that is to be released at once.
func Nothing() time.Duration { return 0 }
