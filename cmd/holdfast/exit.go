package main

import (
	"errors"
	"fmt"
	"io"
	"syscall"
)

// Exit codes of "run" and of errors. 64 and 75 are EX_USAGE and EX_TEMPFAIL of sysexits.h, 76 its neighbour; 125 to 127 are
// those of env, timeout and the shells.
const (
	exitFailed   = 1   // demo: something was not as it should be
	exitUsage    = 64  // bad flag or argument
	exitNotHeld  = 75  // the lock was not acquired in time; try again later
	exitLost     = 76  // the lock was lost while the command ran
	exitHoldfast = 125 // holdfast itself failed, for example because Redis does not answer
	exitCannot   = 126 // the command was found and cannot be executed
	exitNotFound = 127 // the command was not found
	exitSignal   = 128 // plus the number of a signal
)

// failure is an error that knows its exit code.
type failure struct {
	code int
	err  error
}

func (f failure) Error() string { return f.err.Error() }
func (f failure) Unwrap() error { return f.err }

func fail(code int, format string, args ...any) error {
	return failure{code, fmt.Errorf(format, args...)}
}

// exited is the end of a command that has said all there is to say.
type exited int

func (e exited) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// signalled is why a wait ended.
type signalled struct{ sig syscall.Signal }

func (s signalled) Error() string { return "interrupted by a signal: " + s.sig.String() }

// report prints an error for the user and returns the exit code.
func report(stderr io.Writer, err error) int {
	var (
		code exited
		f    failure
		s    signalled
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintln(stderr, "holdfast:", err)
	switch {
	case errors.As(err, &s):
		return exitSignal + int(s.sig)
	case errors.As(err, &f):
		return f.code
	}
	return exitUsage // the parser's own errors
}
