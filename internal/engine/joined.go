package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/combine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// joined is what a joined hold stands on.
type joined struct {
	key   queue.Key
	holds []*Hold
	given atomic.Bool // Unlock has been called
}

var _ holdOwner = (*joined)(nil)

// Join makes one hold of several, of at least one. Errors call it by a kind and a name of its own.
// The holds belong to it from then on: nobody else unlocks them. They have one owner, whose locks are
// re-entered under the context of the joined one: each was taken under the context of one before it,
// or all under one that carries an owner, see [Owned].
//
// The joined hold ends when the first of them ends, for the same reason, which says of which lock it
// is. The others last until Unlock, which gives all back at the same time, also if it fails for
// some. Its error says of each which lock it is, and so does that of Extend.
//
// Its context derives from that under which the first was taken, and carries the tokens of all by
// the names of their locks. Its own token is the greatest of them: of two holds of the same locks
// the later one has the greater token. Its owner is that of the first hold, its deadline the
// earliest, and its count the least.
func Join(kind, name string, holds ...*Hold) *Hold {
	j := &joined{key: queue.Key{Kind: kind, Name: name}, holds: slices.Clone(holds)}
	h := &Hold{on: j, parent: holds[0].parent, depth: holds[0].depth}
	for _, one := range holds {
		h.token, h.depth = max(h.token, one.token), min(h.depth, one.depth)
	}
	return h
}

func (j *joined) ownerID() string { return j.holds[0].Owner() }

func (j *joined) of() queue.Key { return j.key }

func (j *joined) deadline() (earliest time.Time) {
	for i, one := range j.holds {
		if d := one.Deadline(); i == 0 || d.Before(earliest) {
			earliest = d
		}
	}
	return earliest
}

func (j *joined) unlock(ctx context.Context, budget remote.SharedBudget, h *Hold) error {
	j.follow(h) // its context may have ended by that of one, and nobody has said so here yet
	earlier := h.end(errs.ErrReleased)
	if j.given.Swap(true) {
		return earlier
	}
	return together(j.each(ctx, func(ctx context.Context, one *Hold) error { return one.on.unlock(ctx, budget, one) }))
}

// each does something with all of them at the same time: so none waits for a server that is silent,
// and what is sent to one server travels together. It returns when all is done.
func (j *joined) each(ctx context.Context, do func(context.Context, *Hold) error) []error {
	failed := make([]error, len(j.holds))
	members := make(map[*Client]int)
	for _, one := range j.holds {
		members[one.on.combiningClient()]++
	}
	groups := make(map[*Client]*combine.Group)
	var running sync.WaitGroup
	for i, one := range j.holds {
		ctx, leave := ctx, func() {}
		if c := one.on.combiningClient(); c != nil && members[c] > 1 {
			if groups[c] == nil {
				groups[c] = combine.NewGroup(members[c])
			}
			with, member := groups[c].Member(ctx)
			ctx, leave = with, member.Done
		}
		run := func() {
			defer leave()
			failed[i] = one.called(do(ctx, one))
		}
		if i < len(j.holds)-1 {
			running.Go(run)
		} else {
			run()
		}
	}
	running.Wait()
	return failed
}

// combiningClient is none: each of the holds has its own.
func (j *joined) combiningClient() *Client { return nil }

// forgo is for all of them.
func (j *joined) forgo(*Hold) {
	for _, one := range j.holds {
		one.on.forgo(one)
	}
}

// releasesOnError: one that asked for it is enough.
func (j *joined) releasesOnError() bool {
	return slices.ContainsFunc(j.holds, func(one *Hold) bool { return one.on.releasesOnError() })
}

// together is several errors in one line. (The standard library would put them on as many.)
func together(failed []error) (all error) {
	for _, err := range failed {
		all = errs.Join(all, err)
	}
	return all
}

func (j *joined) extend(ctx context.Context, lease time.Duration) error {
	return together(j.each(ctx, func(ctx context.Context, one *Hold) error {
		if err := one.reason(); err != nil {
			return err
		}
		return one.on.extend(ctx, lease)
	}))
}

// called says which hold's an error is. That of a joined one says so of its own.
func (h *Hold) called(err error) error {
	if _, joined := h.on.(*joined); joined || err == nil {
		return err
	}
	kind, name := h.Of()
	return fmt.Errorf("%s %s: %w", kind, printable.Quote(name), err)
}

// newContext makes a context that ends with any of theirs, whichever derives from which: not by
// deriving from them, because the cause has to say which of them ended. That of a
// hold may also end because the context of its Lock call has: then the hold lasts, and so does the
// joined one.
func (j *joined) newContext(h *Hold) (*holdContext, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(j.tell(h.parent, h))
	stops := make([]func() bool, len(j.holds))
	for i, one := range j.holds {
		stops[i] = context.AfterFunc(one.Context(), func() {
			j.follow(h)
			if one.reason() == nil { // the context of its Lock call has ended, and so has this one's
				cancel(context.Cause(one.Context()))
			}
		})
	}
	return &holdContext{ctx, h}, func(cause error) {
		for _, stop := range stops {
			stop()
		}
		cancel(cause)
	}
}

func (j *joined) tell(ctx context.Context, _ *Hold) context.Context {
	for _, one := range j.holds {
		ctx = one.on.tell(ctx, one)
	}
	return ctx
}

// wanted is not known: each of the holds has a channel of its own.
func (j *joined) wanted() <-chan struct{} { return nil }

func (j *joined) look(h *Hold) {
	for _, one := range j.holds {
		if one.reason() == nil {
			one.on.look(one)
		}
	}
	j.follow(h)
}

// follow ends the joined hold if one of them has ended.
func (j *joined) follow(h *Hold) {
	for _, one := range j.holds {
		if why := one.reason(); why != nil {
			_ = h.end(one.called(why))
			return
		}
	}
}
