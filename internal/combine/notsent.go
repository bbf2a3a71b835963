package combine

import "errors"

// NotSentError says that a command was not sent, because its context ended before it was its turn.
type NotSentError struct{ cause error }

func (e *NotSentError) Error() string { return "not sent: " + e.cause.Error() }

// Unwrap is why the context ended.
func (e *NotSentError) Unwrap() error { return e.cause }

// IsNotSent reports whether a command was not sent because its context ended before.
func IsNotSent(err error) bool {
	var unsent *NotSentError
	return errors.As(err, &unsent)
}
