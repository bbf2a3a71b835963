package combine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// awaitTurn waits until a call is told to send, or that its command has been sent. It fails when
// the caller leaves. Then the call is not used again.
func (c *Combiner) awaitTurn(own *call) (lead bool, err error) {
	if own.until.IsZero() {
		return <-own.turn, nil
	}
	timer := time.NewTimer(time.Until(own.until) + Grace)
	defer timer.Stop()
	select {
	case lead = <-own.turn:
		return lead, nil
	case <-timer.C:
	case <-own.ctx.Done():
		if c.withdraw(own) {
			return false, own.cmd.Err()
		}
		timer.Reset(Grace)
		select {
		case lead = <-own.turn:
			return lead, nil
		case <-timer.C:
		}
	}
	if c.withdraw(own) {
		return false, own.cmd.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case lead = <-own.turn:
		return lead, nil
	default:
	}
	own.left = true // another caller sends the command, or soon will
	return false, &UnansweredError{own.cause(), c, own}
}

// withdraw takes a call out of those that wait to be sent. It reports false if the call is not among them any more.
func (c *Combiner) withdraw(own *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.waiting, own)
	if i < 0 {
		return false
	}
	c.waiting = slices.Delete(c.waiting, i, i+1)
	own.cmd.SetErr(&NotSentError{own.cause()})
	return true
}

// cause returns why the caller of a call leaves.
func (k *call) cause() error {
	if why := context.Cause(k.ctx); why != nil {
		return why
	}
	return cmp.Or(k.ctx.Err(), context.DeadlineExceeded)
}

// tellSent tells callers that their commands have been sent.
func (c *Combiner) tellSent(calls []*call) {
	if len(calls) == 0 {
		return
	}
	var left []func()
	c.mu.Lock()
	for _, k := range calls {
		if !k.left {
			k.turn <- false
			continue
		}
		k.landed = true
		if k.then != nil {
			left = append(left, k.then)
		}
	}
	c.mu.Unlock()
	for _, then := range left {
		then()
	}
}

// WhenLanded has f called when there is an answer, or an error, to a command that its caller has left, if err is such an
// [UnansweredError]: at once if there is one already. The command may be sent long after its caller has left, since the one
// who sends it may have to wait for a connection. f must not block.
func WhenLanded(err error, f func()) {
	var e *UnansweredError
	if !errors.As(err, &e) {
		return
	}
	e.combiner.mu.Lock()
	landed := e.call.landed
	if !landed {
		e.call.then = f
	}
	e.combiner.mu.Unlock()
	if landed {
		f()
	}
}
