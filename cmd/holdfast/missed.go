package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// missed are the masters, of several, that did not say what they have. One that is down must not hide
// what the others have: that is when people look.
type missed struct {
	*connection
	stderr  io.Writer
	masters int
	first   error
}

func (c *connection) missed(stderr io.Writer, masters int) *missed {
	return &missed{connection: c, stderr: stderr, masters: masters}
}

// add is told why one did not. It returns an error if the others are not to be asked: there are none,
// a signal came, or they would refuse it, too.
func (m *missed) add(ctx context.Context, at inspector, err error) error {
	asked := *m.connection
	asked.addresses = []address{at.address}
	err = asked.explain(badName(cause(ctx, err)))
	var f failure
	if m.masters == 1 || ctx.Err() != nil || errors.As(err, &f) && f.code == exitUsage {
		return err
	}
	if m.first == nil {
		m.first = err
	}
	if where := "at " + at.address.String(); !strings.Contains(err.Error(), where+":") {
		err = fmt.Errorf("%s: %w", where, err)
	}
	warn(m.stderr, "%v", err)
	return nil
}

// end is the error of the command, whose text has been said.
func (m *missed) end() error {
	var f failure
	switch {
	case m.first == nil:
		return nil
	case errors.As(m.first, &f):
		return exited(f.code)
	}
	return exited(exitHoldfast)
}
