package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// answerWithin bounds the question that is asked beside the lock: does Redis answer. closeWithin
// bounds the goodbye, and labelWithin the question who has a lock that is refused.
const (
	answerWithin = 5 * time.Second
	closeWithin  = time.Second
	labelWithin  = time.Second
)

// silent is the logger of all clients of the command line: the commands themselves say what is the matter.
var silent = slog.New(slog.DiscardHandler)

// runner is one "holdfast run".
type runner struct {
	runConfig
	path    string // of the command
	stderr  io.Writer
	rdbs    []redis.UniversalClient // one, or the masters of a quorum
	clients []*holdfast.Client      // of rdbs
	signals chan os.Signal
	dropped chan os.Signal // nobody receives from it

	interrupted bool // the command was, by the terminal
}

// run returns an error that knows the exit code.
func run(c runConfig, stderr io.Writer) (err error) {
	r := &runner{runConfig: c, stderr: stderr, signals: make(chan os.Signal, 16), dropped: make(chan os.Signal, 1)}
	defer func() {
		if r.interrupted {
			interruptGroup() // when all else is done
		}
	}()
	// Before anything is locked: a mistyped command should not keep others waiting.
	if r.path, err = find(c.argv[0]); err != nil {
		return err
	}
	if r.rdbs, err = c.connection.all(); err != nil {
		return err
	}
	defer closeAll(r.rdbs)
	defer r.goodbye() // of those that there are by then
	for _, rdb := range r.rdbs {
		client, err := holdfast.New(rdb, &holdfast.Options{Logger: silent, Label: cmp.Or(c.label, holdfast.NoLabel)})
		if err != nil {
			return failure{exitHoldfast, err}
		}
		r.clients = append(r.clients, client)
	}
	signal.Notify(r.signals, forwarded()...)
	signal.Notify(r.dropped, dropped()...)
	defer signal.Stop(r.signals)
	defer signal.Stop(r.dropped)
	return r.lockAndRun()
}

// goodbye closes the clients. They can only be late in undoing what Unlock complained of, which the
// lease ends too.
func (r *runner) goodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	var all sync.WaitGroup
	for _, c := range r.clients {
		all.Go(func() { _ = c.Close(ctx) })
	}
	all.Wait()
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
	unlock := hold.Unlock
	if (err != nil || code != 0) && !r.evenIfFailed {
		unlock = hold.UnlockNow
	}
	switch unlockErr := unlock(context.Background()); {
	case lost || errors.Is(unlockErr, holdfast.ErrLost):
		if err != nil { // it was never there
			return fail(exitLost, "%s was lost before the command ran: %w", r.shown(), err)
		}
		return fail(exitLost, "%s was lost while the command ran, which ended with exit code %d", r.shown(), code)
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
		if err = r.reach(ctx, r.rdbs); err == nil {
			opts := []holdfast.Option{holdfast.Wait(r.wait.Duration), holdfast.Lease(r.lease.Duration)}
			if r.least.Duration > 0 {
				opts = append(opts, holdfast.HoldAtLeast(r.least.Duration))
			}
			told := r.tellOfWait(ctx)
			hold, err = r.kind.lock(ctx, r, opts)
			told()
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
		if err := hold.UnlockNow(context.Background()); err != nil { // granted in the same moment
			r.notUnlocked(err)
		}
		return nil, why
	}
	switch {
	case err == nil:
		return hold, nil
	case errors.Is(err, holdfast.ErrNotAcquired) && !errors.Is(err, holdfast.ErrUnavailable):
		name, why := r.name, err // if it is unavailable too, somebody had it before, and that may be over
		for e := (*holdfast.Error)(nil); errors.As(why, &e); why = e.Err {
			name = e.Name // of several locks the one that is meant
		}
		return nil, fail(exitNotHeld, "--wait is %v, and %s was %w", r.wait.Duration, printable.Quote(name), r.labelled(name, inFlags(why)))
	}
	return nil, r.explain(inFlags(err))
}

// labelled is an error in which the one who has the lock also has its label. Whoever waited has read it meanwhile; for
// whoever did not wait it is read now, if the servers show it at once.
func (r *runner) labelled(name string, err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), labelWithin)
	defer cancel()
	seen := make(chan []inspect.Holder, len(r.rdbs))
	for _, rdb := range r.rdbs {
		go func() {
			var l inspect.Lock
			if i, failed := inspect.New(rdb, nil); failed == nil {
				l, _ = i.Lock(ctx, name) // without an answer there is no holder
			}
			seen <- l.Holders
		}()
	}
	text := err.Error()
	for range r.rdbs {
		var holders []inspect.Holder
		select {
		case holders = <-seen:
		case <-ctx.Done(): // go-redis may wait for longer
			return err
		}
		for _, h := range holders {
			owner := regexp.MustCompile(regexp.QuoteMeta(h.Owner) + `\b`).FindStringIndex(text)
			if owner != nil && h.Label != "" && !strings.HasPrefix(text[owner[1]:], " (") {
				return flagged{err, text[:owner[1]] + " (" + h.Label + ")" + text[owner[1]:]}
			}
		}
	}
	return err
}

// inFlags is an error of the library in which an option of the library is the flag of this command.
func inFlags(err error) error {
	return flagged{err, strings.Replace(err.Error(), "waited as long as Wait allows", "waited as long as --wait allows", 1)}
}

type flagged struct {
	error
	text string
}

func (f flagged) Error() string { return f.text }
func (f flagged) Unwrap() error { return f.error }

// supervise runs the command to its end, and ends it if the lock is lost.
func (r *runner) supervise(hold *holdfast.Hold) (code int, err error) {
	p, err := r.start(hold)
	if err != nil {
		return 0, err
	}
	defer p.end()
	var (
		lost   = hold.Context().Done()
		exited = p.exited
		waits  <-chan time.Time // while the command waits for the terminal
		grace  <-chan time.Time // from the loss on
		poll   <-chan time.Time // from the command's end on, if the lock is lost: the rest of its group must end too
	)
	for {
		select {
		case sig := <-r.signals:
			p.forward(sig.(syscall.Signal))
		case by := <-p.stopped:
			waits = r.halted(p, by)
		case <-waits:
			if p.resume() {
				waits = nil
			}
		case <-lost:
			lost = nil
			r.say("%v; ending the command", context.Cause(hold.Context()))
			p.forward(syscall.SIGTERM)
			grace = time.After(r.grace.Duration)
		case <-grace:
			p.kill()
			p.signal(syscall.SIGKILL) // the command may have ended, and others of its group not
			return p.code(), nil
		case <-exited:
			exited, waits, r.interrupted = nil, nil, p.wasInterrupted()
			p.end() // the guard is of the group, too
			if hold.Context().Err() == nil {
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

// lookAgain is how often is looked whether holdfast is in the foreground by now: no shell tells it.
const lookAgain = 100 * time.Millisecond

// halted says what becomes of a command that was stopped, and when to look at it again.
func (r *runner) halted(p *job, by syscall.Signal) <-chan time.Time {
	text, waits := p.halted(by)
	if text != "" {
		r.say("%s", text)
	}
	if !waits {
		return nil
	}
	return time.Tick(lookAgain)
}

// start starts the command with the inputs and outputs of holdfast.
func (r *runner) start(hold *holdfast.Hold) (*job, error) {
	cmd := exec.Command(r.path, r.argv[1:]...)
	cmd.Args[0] = r.argv[0]
	cmd.Env = append(os.Environ(), r.environment(hold)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	p, err := newJob(cmd, min(r.grace.Duration, r.lease.Duration/2), r.say)
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
	warn(r.stderr, format, args...)
}
