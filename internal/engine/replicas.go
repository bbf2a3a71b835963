package engine

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// confirm makes a new grant count: it is written once more, and that has to reach the replicas.
// Replication is a stream, so who has the later write has the grant, whichever connection or client
// that came by; and if there was a failover in between, the write finds the grant or does not.
// Meanwhile the grant is live already, and renewed.
//
// (Rejected: to wait right behind the script that asks for the lock, which would spare a round
// trip. Who is denied would wait too, for the whole timeout where replicas are missing; an attempt
// that is repeated may find nothing left to write, and then nothing is waited for; and a lock that
// was handed over by message is not asked for at all.)
func (g *grant) confirm(h *Hold) (*Hold, error) {
	b, wait, want := g.base, g.asked.wait, &g.asked.want
	if want.Replicas.N == 0 {
		return h, nil
	}
	o, ok := b.Client.session.CallNoting(wait, func(ctx context.Context, failed *atomic.Pointer[error]) remote.Outcome {
		return g.entry.Set(ctx, 1, want.Lease, want.Replicas, failed)
	}, &g.note.failed, func(remote.Outcome) {})
	if !ok { // a straggler writes nothing into a lock that was given back, but may into a later grant to the same id
		g.entry.MarkStray()
	}
	var err error
	switch cause := b.Over(wait); {
	case errors.Is(cause, errs.ErrClosed):
		err = cause
	case cause != nil:
		err = errs.Outage(errs.WithCause(cause, errs.WithCause(remote.ErrSilent, b.backend.Unreached()))) // granted, but not confirmed
	case o.Err != nil:
		o.Stray = false // nothing stays uncertain: it is given back
		err = b.Uncertain(o)
	case o.Reply.Status == lua.Gone:
		err = errs.Both(errs.ErrNotReplicated, watchdog.ErrGone) // a failover came first
	case !b.Dog.Confirm(&g.tenure.watch, o.Sent, want.Lease, want.renew):
		err = g.reason()
	default:
		g.mu.Lock()
		g.confirmed = want.Replicas
		g.mu.Unlock()
		return h, nil
	}
	b.Dog.Forget(&g.tenure.watch)
	if ok { // else its caller has left, and does not wait for this either
		// Not handed on: nobody in this client could know how many replicas have it.
		g.entry.Release(wait, Nothing)
	}
	return nil, err
}
