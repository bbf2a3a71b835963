package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// Exit codes of "run" and of errors. 64, 69 and 75 are EX_USAGE, EX_UNAVAILABLE and EX_TEMPFAIL of
// sysexits.h, 76 its neighbour; 125 to 127 are those of env, timeout and the shells. 69 is apart
// from 75 because an outage is no reason to skip a job in silence: with 75 somebody else has the
// lock. 79 and 80 are those behind sysexits.h.
const (
	exitFailed   = 1   // demo: something was not as it should be
	exitWarning  = 1   // doctor: the worst finding is a warning
	exitError    = 2   // doctor: the worst finding is an error
	exitUnknown  = 3   // doctor: something is unknown, and what is known is well
	exitUsage    = 64  // bad flag or argument
	exitNoServer = 69  // Redis did not say who has the lock
	exitNotHeld  = 75  // somebody else has the lock, and had it for as long as was waited
	exitLost     = 76  // the lock was lost while the command ran
	exitStale    = 79  // unlock: somebody else has the lock, or it was granted again
	exitFree     = 80  // unlock, inspect: nobody has it, or there is nothing at the name
	exitHoldfast = 125 // holdfast itself failed, for example because Redis refuses its password
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

// warn prints a line for the user, in which nothing that others wrote does anything to the terminal.
func warn(stderr io.Writer, format string, args ...any) {
	fmt.Fprintln(stderr, printable.Line("holdfast: "+fmt.Sprintf(format, args...)))
}

// report prints an error for the user and returns the exit code. args are those of the command line.
func report(stderr io.Writer, err error, args []string) int {
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
	text := err.Error()
	if !errors.As(err, new(harmless)) {
		text = withoutSecrets(text, args)
	}
	warn(stderr, "%s", text)
	switch {
	case errors.As(err, &s):
		return exitSignal + int(s.sig)
	case errors.As(err, &f):
		return f.code
	}
	return exitUsage // the parser's own errors
}

// untilSignal is a context that ends with the cause signalled. stop joins its goroutine.
func untilSignal() (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case sig := <-signals:
			cancel(signalled{sig.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
		<-done
	}
}
