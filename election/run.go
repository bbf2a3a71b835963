package election

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
)

// Run campaigns, and calls lead when this candidate leads. The context of lead ends when the
// leadership does, for the reasons of [holdfast.Hold.Context], and carries the fencing token for
// package fence. Run waits until lead has returned, and then resigns, so that the next candidate
// leads at once. If lead panics, Run resigns, and the panic goes on.
//
// If the leadership is lost, Run campaigns again, whatever lead returned, and as often as it takes.
// Run also repeats a campaign that failed, whatever Redis said: a missing permission may be given,
// and a wrong password be mended. It does so after up to a second, and after up to 16 seconds if
// Redis goes on refusing. It logs a failure if the one before was of another kind, or none. A
// [holdfast.Wait] given to [New] ends a campaign of Run too. The next campaign then begins at the
// end of the queue.
//
// Run returns
//   - the cause of ctx if ctx has ended, together with the error of lead if that is another one.
//     Even then Run first waits for lead, and resigns;
//   - otherwise what lead returned, if the leadership lasted to the end of lead. If the resignation
//     failed, the error includes that too: the next leader may have to wait for the lease;
//   - [holdfast.ErrClosed] if the client was closed;
//   - [holdfast.ErrInvalid] for a bad argument.
func (e *Election) Run(ctx context.Context, value string, lead func(ctx context.Context) error) error {
	if err := e.check("run"); err != nil {
		return err
	}
	if lead == nil {
		return e.invalid("run", "lead is nil; pass the function to run while this candidate leads")
	}
	if err := errs.CheckContext(ctx); err != nil {
		return e.fail("run", err)
	}
	var failed failures
	for {
		h, err := e.campaign(ctx, value, nil)
		again := false
		if err == nil {
			if again, err = e.lead(ctx, h, lead); !again {
				return err
			}
			failed = failures{}
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !passes(err) {
			return e.fail("run", err)
		}
		news, rest := failed.add(err)
		if news {
			e.base.Client.Session().Log.Warn("a campaign failed, and is repeated until one succeeds", "election", e.Name(), "error", err)
		}
		if err := e.base.Pause(ctx, rest); errors.Is(err, errs.ErrClosed) {
			return e.fail("run", err)
		} else if err != nil {
			return context.Cause(ctx)
		}
	}
}

// lead is one term. again says that it was lost.
func (e *Election) lead(ctx context.Context, h *engine.Hold, lead func(ctx context.Context) error) (again bool, err error) {
	returned := false
	defer func() {
		if !returned { // it panicked, or ended its goroutine
			_ = h.Unlock(ctx)
		}
	}()
	err = lead(h.Context())
	returned = true
	cause := context.Cause(ctx)
	resigned := h.Unlock(ctx)
	switch {
	case cause != nil && (err == nil || errors.Is(err, cause) || errors.Is(err, ctx.Err())):
		return false, cause
	case cause != nil:
		return false, errs.Both(cause, err)
	case errors.Is(resigned, errs.ErrLost):
		return true, nil
	case resigned == nil, errors.Is(resigned, errs.ErrReleased):
		return false, err
	}
	resigned = e.fail("resign", resigned)
	if err == nil {
		return false, resigned
	}
	return false, errs.Both(err, resigned)
}
