package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

// answerWithin bounds the question that is asked beside the lock: does Redis answer. closeWithin
// bounds the goodbye.
const (
	answerWithin = 5 * time.Second
	closeWithin  = time.Second
)

// runner is one "holdfast run".
type runner struct {
	runConfig
	path    string // of the command
	stderr  io.Writer
	rdb     redis.UniversalClient
	mutex   *rlock.Mutex
	signals chan os.Signal
	dropped chan os.Signal // nobody receives from it
}

// run returns an error that knows the exit code.
func run(c runConfig, stderr io.Writer) (err error) {
	r := &runner{runConfig: c, stderr: stderr, signals: make(chan os.Signal, 16), dropped: make(chan os.Signal, 1)}
	// Before anything is locked: a mistyped command should not keep others waiting.
	if r.path, err = find(c.argv[0]); err != nil {
		return err
	}
	if r.rdb, err = connect(c.redis); err != nil {
		return err
	}
	defer r.rdb.Close()
	client, err := holdfast.New(r.rdb, nil)
	if err != nil {
		return failure{exitHoldfast, err}
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		_ = client.Close(ctx) // it can only be late in undoing what Unlock complained of, which the lease ends too
	}()
	r.mutex = rlock.New(client, c.name)
	signal.Notify(r.signals, forwarded()...)
	signal.Notify(r.dropped, dropped()...)
	defer signal.Stop(r.signals)
	defer signal.Stop(r.dropped)
	return r.lockAndRun()
}

func (r *runner) lockAndRun() error {
	// The hold's context derives from this one, so it ends only when all is over, or when a signal
	// ends the wait.
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	hold, err := r.lock(ctx, cancel)
	if err != nil {
		return err
	}
	code, err := r.supervise(hold)
	lost := errors.Is(context.Cause(hold.Context()), holdfast.ErrLost)
	switch unlockErr := hold.Unlock(context.Background()); {
	case lost || errors.Is(unlockErr, holdfast.ErrLost):
		if err != nil { // it was never there
			return fail(exitLost, "the lock %q was lost before the command ran: %w", r.name, err)
		}
		return fail(exitLost, "the lock %q was lost while the command ran, which ended with exit code %d", r.name, code)
	case unlockErr != nil:
		r.notUnlocked(unlockErr)
	}
	switch {
	case err != nil:
		return err
	case code != 0:
		return exited(code)
	}
	return nil
}

// notUnlocked says how long the lock may stay now.
func (r *runner) notUnlocked(err error) {
	r.say("%v; if it is still there, the lock ends by itself within %v", err, max(r.lease.Duration, r.least.Duration))
}

// lock waits for the lock, a signal, or the end of --wait.
func (r *runner) lock(ctx context.Context, cancel context.CancelCauseFunc) (*holdfast.Hold, error) {
	var (
		hold *holdfast.Hold
		err  error
		done = make(chan struct{})
	)
	go func() {
		defer close(done)
		if err = r.ping(ctx); err == nil {
			opts := []holdfast.Option{holdfast.Wait(r.wait.Duration), holdfast.Lease(r.lease.Duration)}
			if r.least.Duration > 0 {
				opts = append(opts, holdfast.HoldAtLeast(r.least.Duration))
			}
			hold, err = r.mutex.Lock(ctx, opts...)
		}
	}()
	select {
	case <-done:
	case sig := <-r.signals:
		why := signalled{sig.(syscall.Signal)}
		cancel(why)
		<-done
		if hold == nil {
			return nil, why
		}
		if err := hold.Unlock(context.Background()); err != nil { // granted in the same moment
			r.notUnlocked(err)
		}
		return nil, why
	}
	var f failure
	switch {
	case err == nil:
		return hold, nil
	case errors.As(err, &f):
		return nil, err
	case errors.Is(err, holdfast.ErrUnavailable): // also if somebody had it before: that may be over
		return nil, failure{exitNoServer, err}
	case errors.Is(err, holdfast.ErrNotAcquired):
		why := err
		var e *holdfast.Error
		if errors.As(err, &e) {
			why = e.Err // without the name, which stands before it
		}
		return nil, fail(exitNotHeld, "--wait is %v, and %q was %w", r.wait.Duration, r.name, why)
	case errors.Is(err, holdfast.ErrInvalid):
		return nil, failure{exitUsage, err}
	case wantsPassword(err):
		return nil, fail(exitHoldfast, "%w; put user and password into --redis (or HOLDFAST_REDIS), as in redis://user:password@host:port", err)
	}
	return nil, failure{exitHoldfast, err}
}

// wantsPassword reports whether a server refused to talk to us without another password than the
// one it got.
func wantsPassword(err error) bool {
	text := err.Error()
	return slices.ContainsFunc([]string{"NOAUTH", "WRONGPASS", "unauthenticated"},
		func(word string) bool { return strings.Contains(text, word) })
}

// ping tells at once of a Redis that cannot be reached; the lock would say so when --wait is over.
// An answer of any kind will do; what is wrong with it the lock will say.
func (r *runner) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	err := r.rdb.Ping(ctx).Err()
	var reply redis.Error
	if err == nil || errors.As(err, &reply) {
		return nil
	}
	return fail(exitNoServer, "no answer from Redis at %s: %w; is it running, and is --redis right?",
		hidePassword(r.redis), err)
}

// supervise runs the command to its end, and ends it if the lock is lost.
func (r *runner) supervise(hold *holdfast.Hold) (code int, err error) {
	p, err := r.start(hold)
	if err != nil {
		return 0, err
	}
	var (
		lost   = hold.Context().Done()
		exited = p.exited
		grace  <-chan time.Time // from the loss on
		poll   <-chan time.Time // from the command's end on, if the lock is lost: the rest of its group must end too
	)
	for {
		select {
		case sig := <-r.signals:
			p.signal(sig.(syscall.Signal))
		case <-lost:
			lost = nil
			r.say("%v; ending the command", context.Cause(hold.Context()))
			p.terminate()
			grace = time.After(r.grace.Duration)
		case <-grace:
			p.kill()
			p.signal(syscall.SIGKILL) // the command may have ended, and others of its group not
			return p.code(), nil
		case <-exited:
			if exited = nil; hold.Context().Err() == nil {
				return p.code(), nil
			}
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			poll = tick.C
		case <-poll:
			if !p.groupLives() {
				return p.code(), nil
			}
		}
	}
}

// start starts the command with the terminal's outputs and, if it is none, its input.
func (r *runner) start(hold *holdfast.Hold) (*process, error) {
	cmd := exec.Command(r.path, r.argv[1:]...)
	cmd.Args[0] = r.argv[0]
	cmd.Env = append(os.Environ(),
		"HOLDFAST_NAME="+r.name,
		"HOLDFAST_OWNER="+hold.Owner(),
		"HOLDFAST_TOKEN="+strconv.FormatUint(hold.Token(), 10))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if !term.IsTerminal(int(os.Stdin.Fd())) { //nolint:gosec // a file descriptor fits
		cmd.Stdin = os.Stdin
	}
	p, err := launch(cmd, syscall.SIGTERM)
	if err != nil {
		return nil, fail(exitCannot, "cannot execute %s: %w", r.argv[0], err)
	}
	return p, nil
}

// find looks a command up as a shell does.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrDot):
		return "", fail(exitNotFound, "%s: not found on the PATH, only in the current directory; use ./%s for that",
			name, name)
	case errors.Is(err, syscall.EISDIR):
		return "", fail(exitCannot, "%s: is a directory; give the path of a program", name)
	case errors.Is(err, fs.ErrPermission):
		return "", fail(exitCannot, "%s: not executable; chmod +x it", name)
	case name == "":
		return "", fail(exitNotFound, `the command is ""; put one behind "--"`)
	}
	return "", fail(exitNotFound, "%s: command not found; give a path, or one that is on the PATH", name)
}

func (r *runner) say(format string, args ...any) {
	fmt.Fprintf(r.stderr, "holdfast: "+format+"\n", args...)
}
