package engine

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// Asker asks a client's server about what has one name there. Locks are built on it, and kinds that are
// no locks.
type Asker struct {
	Client  *Client
	Err     error // why it cannot be used: bad name, nil client
	explain func(error) error
}

// NewAsker is for the kinds of this module. Errors in its arguments are returned by the first
// operation. explain adds to an error of Redis what the kind knows of it, as [Backend.Explain] does.
func NewAsker(c *Client, name string, explain func(error) error) Asker {
	a := Asker{Client: c, explain: explain}
	if err := c.Check(); err != nil {
		a.Err = err
	} else if err := keys.Check(name); err != nil {
		a.Err = errs.Both(errs.ErrInvalid, err)
	}
	return a
}

// Uncertain is the error of an operation that failed: whether it may have happened is part of it,
// and whether there was an answer.
func (a *Asker) Uncertain(o remote.Outcome) error {
	err := a.explain(o.Err)
	if o.Stray && !o.Unsent {
		err = errs.Both(errs.ErrUncertain, err)
	}
	if remote.IsOutage(o.Err) {
		err = errs.Outage(err)
	}
	return err
}

// Over is why nobody should wait any more: the caller's context or the client's end. A context that
// is done beats a lock that is free.
func (a *Asker) Over(wait context.Context) error {
	if a.Client.ctx.Err() != nil {
		return errs.ErrClosed
	}
	return context.Cause(wait)
}
