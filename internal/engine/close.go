package engine

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// Close ends what the client holds and waits for, and joins its goroutines. A second call waits for
// the first.
func (c *Client) Close(ctx context.Context) error {
	if err := c.Check(); err != nil {
		return err
	}
	if ctx == nil {
		ctx = context.Background() // what is held has to be released in any case
	}
	first := false
	c.closeOnce.Do(func() { first = true })
	if first {
		defer close(c.closed)
		c.closeErr = c.close(ctx)
		return c.closeErr
	}
	<-c.closed // not in the Once: no time passes in a bubble of testing/synctest while anybody waits for a mutex
	return c.closeErr
}

func (c *Client) close(ctx context.Context) error {
	c.cancel(errs.ErrClosed)
	c.queue.Close(errs.ErrClosed)
	c.label.Close()
	rest := c.dogs.stop()
	for _, w := range rest {
		endAll(w.owners)
	}
	if ctx.Err() != nil {
		limit, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), c.session.Budget(), context.Cause(ctx))
		defer cancel()
		ctx = limit
	}
	for _, w := range rest {
		c.tasks.Go(func() { w.renewer.ReleaseAll(w.owners) })
		c.tasks.Go(w.dog.Join)
	}
	hubErr := c.hub.Close(ctx)
	if err := c.tasks.Wait(ctx); err != nil {
		return err
	}
	if err := c.unreleased.error(); err != nil {
		return err
	}
	return hubErr
}

// ReleaseAll is [Renewer.ReleaseAll]. A master that does not answer keeps its own locks only.
func (c *Client) ReleaseAll(owners []watchdog.Owner) {
	for _, held := range remote.ByMaster(c.server, owners, nameOf) {
		c.tasks.Go(func() { c.NoteUnreleased(c.releaseAt(held)) })
	}
}

// releaseAt frees locks of one master in batches: there may be a hundred thousand. If it does not
// answer it gives up; the leases end what is left, which it counts.
func (c *Client) releaseAt(owners []watchdog.Owner) (left int, why error) {
	start := suspend.System.Now()
	for batch := range slices.Chunk(owners, 500) {
		calls := make([]lua.Call, len(batch))
		for i, o := range batch {
			t := o.(*ServerLease)
			calls[i] = t.Entry.(*serverEntry).releaseCall(t.end().rest())
		}
		ctx, cancel := c.server.Within(context.Background(), max(c.session.Budget(), remote.LeastDial))
		begun := c.session.Begin()
		results := lua.RunAll(ctx, c.rdb, calls)
		c.session.ReportAll(begun, calls, results)
		cancel()
		for i, result := range results {
			switch {
			case result.Err == nil:
			case why != nil:
				left++
			case !errs.IsReply(result.Err) && suspend.System.Now().Sub(start) > c.session.Budget():
				// It was silent for as long as it may be. To ask once more would take another
				// ReadTimeout.
				why = batch[i].(*ServerLease).base.Uncertain(remote.Outcome{MayArriveLate: true, Err: result.Err})
				left++
			default:
				if why = batch[i].(*ServerLease).ReleaseAtClose(); why != nil {
					left++
				}
			}
		}
		owners = owners[len(batch):]
		if why != nil {
			return left + len(owners), why
		}
	}
	return 0, nil
}

// ReleaseAtClose releases what a closed client held, on its own.
func (t *ServerLease) ReleaseAtClose() error {
	if o := t.Entry.Release(context.Background(), remote.SharedBudget{}, t.end().rest); o.Err != nil && !remote.IsTaken(o.Err) {
		return t.base.Uncertain(o)
	}
	return nil
}

// endAll ends every context before the first lock is released.
func endAll(owners []watchdog.Owner) {
	for _, o := range owners {
		o.(*ServerLease).end().finish(errs.ErrClosed, false)
	}
}
