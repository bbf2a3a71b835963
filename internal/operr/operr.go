// Package operr makes the errors that the operations of all kinds of lock return.
//
// Not here: the reasons, see package errs.
package operr

import (
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// Kind is one kind of lock.
type Kind struct {
	Name string // "rlock"
	New  string // the type, and what makes one: "Mutex; make one with rlock.New"
}

// Check returns the error of an operation on a nil or zero value, and nil for one that was made.
func (k *Kind) Check(op string, made bool) error {
	if made {
		return nil
	}
	return &holdfast.Error{Op: op, Kind: k.Name, Err: fmt.Errorf("%w: nil or zero %s", holdfast.ErrInvalid, k.New)}
}

// Fail wraps the error of an operation. It returns nil for nil.
//
// It is not inlined, because its variables would be on the stack of every waiter, which then would not fit into 2 KiB.
//
//go:noinline
func (k *Kind) Fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &holdfast.Error{Op: op, Kind: k.Name, Name: name, Err: err}
}
