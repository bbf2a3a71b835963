// Package panics makes errors of the panics of user code that runs within a command: hooks, dialers
// and the like of go-redis. So what was begun is ended as after any failure, and whoever asked for
// it can let the panic go on.
//
// Not promised: that runtime.Goexit is noticed. It ends the goroutine as it is.
package panics

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Error is a panic. Whether the command was sent before it is not known.
type Error struct {
	Value any    // of the panic
	Stack []byte // where it was
}

func (e *Error) Error() string {
	return fmt.Sprintf("a hook or dialer of go-redis panicked: %v", e.Value)
}

// Into makes the function that defers it return with an [Error] if it panics.
func Into(err *error) {
	if v := recover(); v != nil {
		*err = &Error{v, debug.Stack()}
	}
}

// Repanic returns the error of an operation, at the operation's end. If that is a panic of the user's code, the panic
// goes on to the caller. By then everything that the operation had got is given back, or will be.
func Repanic(err error) error {
	if err == nil {
		return nil // without looking, which takes memory
	}
	if p := In(err); p != nil {
		panic(p.Value)
	}
	return err
}

// In finds the panic in an error, nil if there is none.
func In(err error) *Error {
	var p *Error
	if err == nil || !errors.As(err, &p) {
		return nil
	}
	return p
}

// Text is an error without the panic in it: what it says, for others than those whose command it
// was.
func Text(err error) error {
	if In(err) == nil {
		return err
	}
	return errors.New(err.Error())
}
