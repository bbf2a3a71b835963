package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"

	"github.com/holdfast-go/holdfast/internal/errs"
)

// Close ends what the client holds and waits for, and joins its goroutines. A second call waits for the first.
func (c *Client) Close(ctx context.Context) error {
	if err := c.check(); err != nil {
		return err
	}
	if ctx == nil {
		ctx = context.Background() // what is held has to be released in any case
	}
	c.closeOnce.Do(func() { c.closeErr = c.close(ctx) })
	return c.closeErr
}

func (c *Client) close(ctx context.Context) error {
	c.cancel(errs.ErrClosed)
	c.queue.Close(errs.ErrClosed)
	rest := c.dogs.stop()
	for _, w := range rest {
		endAll(w.owners)
	}
	if ctx.Err() != nil {
		limit, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), c.budget(), context.Cause(ctx))
		defer cancel()
		ctx = limit
	}
	for _, w := range rest {
		c.tasks.Go(func() { w.renewer.releaseAll(w.owners) })
		c.tasks.Go(w.dog.Join)
	}
	hubErr := c.hub.Close(ctx)
	if err := c.tasks.Wait(ctx); err != nil {
		return err
	}
	if err := c.left.error(); err != nil {
		return err
	}
	return hubErr
}

// leftovers are the locks that Close could not release.
type leftovers struct {
	mu    sync.Mutex // guards the rest
	locks int
	why   error // of one of them
}

func (l *leftovers) add(locks int, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.locks += locks
	l.why = why
}

func (l *leftovers) error() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.locks == 0 {
		return nil
	}
	remedy := ""
	if errors.Is(l.why, redis.ErrClosed) {
		remedy = "; close this client before the one of go-redis"
	}
	return fmt.Errorf("%d of the locks held may be left in Redis until their leases end%s: %w", l.locks, remedy, l.why)
}

// releaseAll is [renewer.releaseAll]. A master that does not answer keeps its own locks only.
func (c *Client) releaseAll(owners []watchdog.Owner) {
	for _, held := range byMaster(c, owners, nameOf) {
		c.tasks.Go(func() { c.leave(c.releaseAt(held)) })
	}
}

// leave notes, and logs, that locks are left.
func (c *Client) leave(locks int, why error) {
	if locks == 0 {
		return
	}
	c.left.add(locks, why)
	c.opts.Logger.Warn("locks not released at close; their leases will end them", "locks", locks, "error", why)
}

// releaseAt frees locks of one master in batches: there may be a hundred thousand. If it does not answer it gives up; the leases
// end what is left, which it counts.
func (c *Client) releaseAt(owners []watchdog.Owner) (left int, why error) {
	start := suspend.System.Now()
	for batch := range slices.Chunk(owners, 500) {
		calls := make([]lua.Call, len(batch))
		for i, o := range batch {
			g := o.(*tenure).end()
			calls[i] = g.entry.(*field).farewell(g.rest())
		}
		ctx, cancel := context.WithTimeoutCause(context.Background(), max(c.budget(), leastDial), errBudget)
		results := lua.RunAll(ctx, c.rdb, calls)
		cancel()
		for i, result := range results {
			switch {
			case result.Err == nil:
			case why != nil:
				left++
			case !errs.IsReply(result.Err) && suspend.System.Now().Sub(start) > c.budget():
				// It was silent for as long as it may be. To ask once more would take another ReadTimeout.
				why = batch[i].(*tenure).base.uncertain(outcome{stray: true, err: result.Err})
				left++
			default:
				if why = batch[i].(*tenure).end().releaseAtClose(); why != nil {
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

// releaseAtClose releases a grant of a closed client on its own, after the batch that it was in did not get through.
func (g *grant) releaseAtClose() error {
	if o := g.entry.release(context.Background(), g.rest); o.err != nil {
		return g.base.uncertain(o)
	}
	return nil
}

// endAll ends every context before the first lock is released.
func endAll(owners []watchdog.Owner) {
	for _, o := range owners {
		o.(*tenure).end().finish(errs.ErrClosed, false)
	}
}

// releaseAll is [renewer.releaseAll]. What is left at a minority of the masters keeps nobody out.
func (v votes) releaseAll(owners []watchdog.Owner) {
	if control.Withdraw.Off() {
		return
	}
	var all sync.WaitGroup
	var failed leftovers
	for _, o := range owners {
		g := o.(*tenure).end()
		all.Go(func() {
			if o := g.entry.release(context.Background(), g.rest); o.err != nil {
				failed.add(1, g.base.uncertain(o))
			}
		})
	}
	all.Wait()
	v.home.leave(failed.locks, failed.why)
}
