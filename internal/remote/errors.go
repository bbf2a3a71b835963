package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/combine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/lua"
)

// ALock is what most names are the keys of.
const ALock = "a lock"

var (
	// ErrLate says that the network delayed a request for too long. The server has done nothing.
	ErrLate = errors.New("the request reached the server later than it was to be executed")
	// ErrBudget says that an operation has taken as long as it may.
	ErrBudget = errors.New("no answer within Options.RetryBudget")
	// ErrSilent says that a master does not answer.
	ErrSilent = errors.New("no answer")
	// ErrCloseOrder is the remedy where the user has closed the go-redis client.
	ErrCloseOrder = errors.New("close the Holdfast client before the go-redis client")
)

// spent returns the error of an operation that has taken as long as it may, with the last failure
// of the network, if there was one, and else with the server that was silent. It leaves out the error of the last attempt itself. That error
// says that a context ended. The context is ours, but it would be taken for the caller's.
func spent(failure error, from string) error {
	if failure == nil {
		return errs.Reworded("no answer"+from+" within Options.RetryBudget", ErrBudget)
	}
	return errs.Both(ErrBudget, failure)
}

// Classify reports of an error whether the command may have run in spite of it, and whether the
// cause is passing, so that another attempt may succeed.
func Classify(err error) (sent, passing bool) {
	if errors.Is(err, ErrBudget) {
		return true, false // from the wait for a connection or from the read; assume the worse
	}
	if errs.IsReply(err) {
		for _, prefix := range []string{
			"LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "READONLY", "NOREPLICAS", "BUSY ", "MOVED", "ASK",
			// a replica that was a master, asked over a READONLY connection, refuses the first write; a master to which
			// a slot moves, to look for a key that is not there yet (see lua/part/timeouts.lua)
			"Attempted to access a non local key", "Script attempted to access a non local key",
			"Lua script attempted to access a non local key",
			"max number of clients", "UNBLOCKED", "WAIT cannot", "WAITAOF cannot", // the last three: it was demoted
		} {
			if lua.IsError(err, prefix) {
				return false, true // the server did not begin; soon it may
			}
		}
		return false, false
	}
	var op *net.OpError
	switch {
	case errors.Is(err, errs.ErrNotReplicated):
		return false, false // an answer too
	case errors.Is(err, ErrLate):
		return false, true // the next attempt gets more time
	case panics.In(err) != nil:
		return true, false // the panic goes on to the caller, if there is one, and not through a hook that has just panicked
	case combine.IsNotSent(err):
		return false, true
	case isHandshake(err):
		return false, false // certificates do not change by waiting
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, redis.ErrPoolTimeout),
		errors.Is(err, redis.ErrPoolExhausted):
		return false, true // the command never left
	case errors.Is(err, redis.ErrClosed):
		return false, false // the user closed the go-redis client
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return true, false // may come from the wait for a connection or from the read; assume the worse
	}
	return true, true
}

// ServesNot reports whether an error is a reply that the server serves nobody now, or not this client: it
// would say the same of any lock.
func ServesNot(err error) bool {
	for _, prefix := range []string{"LOADING", "MASTERDOWN", "CLUSTERDOWN", "READONLY", "NOREPLICAS", "BUSY ",
		"max number of clients"} {
		if lua.IsError(err, prefix) {
			return true
		}
	}
	return lua.AuthProblemOf(err) != lua.AuthFine
}

// isUnsent reports whether a command was not sent because its turn did not come, or because all connections
// were in use. That is no failure of the server.
func isUnsent(err error) bool { return combine.IsNotSent(err) || errors.Is(err, redis.ErrPoolTimeout) }

// IsContext reports whether an operation failed because its context ended. Such a failure says
// nothing about the server.
func IsContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// awaitDeadline waits for the end of a context whose deadline has passed. A command that travels
// with others has the same deadline and a timer of its own, and may end a moment before the
// context. Only the context has the cause.
func awaitDeadline(ctx context.Context) {
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > 0 || ctx.Err() != nil {
		return
	}
	timer := time.NewTimer(time.Second) // for contexts that only pretend to have a deadline
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// isHandshake reports whether TLS failed before anything else was sent: we do not trust the server,
// the server does not trust us, or the server does not speak TLS.
func isHandshake(err error) bool {
	var untrusted *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	var op *net.OpError
	return errors.As(err, &untrusted) || errors.As(err, &plain) || errors.As(err, &op) && op.Op == "remote error"
}

// isStale reports whether the other side had closed the connection.
func isStale(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// IsOutage reports whether an error leaves open who has the lock: the server did not answer, or
// said that it cannot serve now. A permanent refusal, such as a missing permission, is not an
// outage.
func IsOutage(err error) bool {
	var own interface {
		error
		Outage() bool
	}
	switch {
	case errors.Is(err, errs.ErrNotReplicated), errors.Is(err, errs.ErrInvalid):
		return false
	case errors.Is(err, ErrBudget):
		return true
	case errors.As(err, &own): // of several servers, each of which said something else
		return own.Outage()
	case errs.IsReply(err):
		_, passing := Classify(err)
		return passing
	}
	return true
}

// oneOf says that one of these keys has the wrong type. A list that is too long to read is left to the command line.
func oneOf(others []string) string {
	const long = 5
	last := len(others) - 1
	for i := range others {
		others[i] = printable.Name(others[i])
	}
	switch {
	case last >= long:
		return `another of its keys has the wrong type, and "holdfast inspect" says which`
	case last > 0:
		return strings.Join(others[:last], ", ") + " or " + others[last] + " has the wrong type"
	}
	return others[0] + " has the wrong type"
}

// Explain adds to an error of Redis which key of the lock it is about, and what to do. what is what the name should be
// the key of, such as [ALock], and others are the keys that belong to it. The server does not say which of them has the
// wrong type; it is the name almost always.
func Explain(err error, name, what string, others ...string) error {
	switch {
	case lua.IsError(err, "WRONGTYPE"):
		// These keep a string at the name, where locks and elections keep a hash.
		has, advice := "a semaphore, a latch", "choose another name"
		switch what {
		case ALock:
			advice += ", or see docs/migrating.md if another library locks it"
		case "a semaphore", "a latch":
			has = "a lock, an election"
		}
		return errs.Both(fmt.Errorf("the key %s is not %s; %s or another program may have this name, as \"holdfast inspect\" says; %s; if it is %s, %s",
			printable.Name(name), what, has, advice, what, oneOf(others)), err)
	case lua.IsError(err, "HOLDFAST the key"): // a script looked at the key
		return errs.Reworded(strings.TrimPrefix(err.Error(), "HOLDFAST ")+"; choose another name", err)
	case lua.IsError(err, "HOLDFAST the token key"):
		return errs.Reworded(strings.TrimPrefix(err.Error(), "HOLDFAST ")+"; delete it, or choose another name", err)
	case lua.AuthProblemOf(err) == lua.AuthMissing:
		return errs.Both(errors.New("the server wants a password, and none was given; set Password, and Username if it is not the default one, in the "+
			"options of go-redis"), err)
	case lua.AuthProblemOf(err) == lua.AuthWrong:
		return errs.Both(errors.New("the server does not know this user with this password; check Username and Password in the options of go-redis"), err)
	case lua.AuthProblemOf(err) == lua.AuthUnwanted:
		return errs.Both(errors.New("the server, or a proxy in front of it, has no password, and one was given; leave out Username and Password in the "+
			"options of go-redis, or set the password there"), err)
	case lua.IsError(err, "READONLY"):
		return errs.Both(errors.New("this server is a replica now; if it stays one, connect to its primary"), err)
	case lua.IsError(err, "OOM"):
		return errs.Both(errors.New("the server is full and writes nothing; raise maxmemory, or make room there"), err)
	case lua.IsError(err, "DB index"):
		return errs.Both(errors.New("the server has no such database; set DB in the options of go-redis to a smaller number"), err)
	case errors.Is(err, redis.ErrClosed):
		return errs.Both(ErrCloseOrder, err)
	case lua.IsDenied(err):
		return errs.Both(errors.New("this user lacks a permission; docs/security.md has the rule that it needs, and ACL LOG "+
			"at the server says what was refused"), err)
	}
	return err
}
