package combine

import "errors"

// NotSentError says that a command was not sent, because its context ended before its turn came.
type NotSentError struct{ cause error }

func (e *NotSentError) Error() string { return "not sent: " + e.cause.Error() }

// Unwrap returns why the context ended.
func (e *NotSentError) Unwrap() error { return e.cause }

// IsNotSent reports whether an error is a [NotSentError].
func IsNotSent(err error) bool { return err != nil && isNotSent(err) }

// isNotSent is apart because what it looks for is put on the heap.
func isNotSent(err error) bool {
	var unsent *NotSentError
	return errors.As(err, &unsent)
}

// UnansweredError says that a caller in haste has left a command that another caller sends or has
// sent. The command may run.
type UnansweredError struct {
	cause    error
	combiner *Combiner
	call     *call
}

func (e *UnansweredError) Error() string { return "not waited for: " + e.cause.Error() }

// Unwrap returns why the context ended.
func (e *UnansweredError) Unwrap() error { return e.cause }

// Unanswered marks the error for package lua: the command is still in use, and must not be read.
func (e *UnansweredError) Unanswered() {}

// IsUnanswered reports whether an error is an [UnansweredError].
func IsUnanswered(err error) bool {
	var left *UnansweredError
	return errors.As(err, &left)
}
