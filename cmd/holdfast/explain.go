package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/lua"
)

// explain gives an error of a command its exit code, and the one thing to do about it. Errors that
// know their code already are left alone.
func (c *connection) explain(err error) error {
	var f failure
	var s signalled
	var reply redis.Error
	var lock *holdfast.Error
	err = printable.Error(err) // what is said behind it must not look like a part of it
	switch {
	case err == nil, errors.As(err, &f), errors.As(err, &s):
		return err
	case errors.Is(err, holdfast.ErrInvalid):
		return failure{exitUsage, err}
	case wantsPassword(err):
		return fail(exitHoldfast, "Redis at %s refuses access: %s; %s", c, serverSays(err), c.first().letIn(err))
	case lua.AuthProblemOf(err) == lua.AuthUnwanted:
		return fail(exitHoldfast, "Redis at %s refuses access: %s; it has no password: leave user and password out of --redis (or "+redisEnv+
			"), or set one there", c, serverSays(err))
	case noAuth(err):
		return fail(exitHoldfast, "Redis at %s refuses access: %s; it has no AUTH: leave user and password out of --redis (or "+redisEnv+
			"), or ask who runs it", c, serverSays(err))
	case noDatabase(err):
		return fail(exitHoldfast, "Redis at %s has no such database: %s; write a smaller number behind the host in --redis (or "+redisEnv+
			"), or none for database 0", c, serverSays(err))
	case lua.IsError(err, "MOVED"):
		return fail(exitHoldfast, "Redis at %s is a node of a Cluster: %s; write redis+cluster:// in place of redis://", c, serverSays(err))
	case errors.Is(err, holdfast.ErrUnavailable):
		return failure{exitNoServer, err}
	case lua.IsDenied(err):
		return fail(exitHoldfast, "%w; give this user of Redis the permission; docs/security.md has all that are needed", err)
	case lua.IsError(err, "READONLY"):
		return fail(exitHoldfast, "%w; --redis must name the master, and this is a replica of it", err)
	case strings.Contains(err.Error(), "cluster support disabled"):
		return fail(exitHoldfast, "%w; write redis:// in place of redis+cluster://, as this server is not a Cluster", err)
	case errors.As(err, &reply), errors.As(err, &lock): // the library tells an outage from the rest
		return failure{exitHoldfast, err}
	}
	return fail(exitNoServer, "no answer from Redis at %s: %w; %s", c, withoutAddress(c, err), c.first().unanswered(err))
}

// networkCause is what the network said; empty: it is not known.
func networkCause(err error) string {
	var failed *net.OpError
	var call *os.SyscallError
	switch {
	case !errors.As(err, &failed):
		return ""
	case errors.As(failed.Err, &call):
		return call.Err.Error()
	}
	return failed.Err.Error()
}

// withoutAddress is an error without the address of its server, if that was said before it.
func withoutAddress(said fmt.Stringer, err error) error {
	var failed *net.OpError
	if !errors.As(err, &failed) || failed.Addr == nil || !strings.Contains(said.String(), failed.Addr.String()) {
		return err
	}
	where := strings.TrimSuffix(failed.Error(), failed.Err.Error())
	return flagged{err, strings.Replace(err.Error(), where, "", 1)}
}

// first is the address that advice is for: of the masters of a quorum, the others are like it.
func (c *connection) first() address {
	if len(c.addresses) == 0 {
		return address{}
	}
	return c.addresses[0]
}

// serverSays is what the server itself has answered. The library adds a remedy for programs, which names options of
// go-redis; a command has its own remedy.
func serverSays(err error) string {
	text := err.Error()
	var reply redis.Error
	if errors.As(err, &reply) {
		text = printable.Line(reply.Error())
	}
	return strings.TrimRight(text, ". ")
}

// refuses reports whether a server has answered, and takes no command of this client.
func refuses(err error) bool {
	return !noMaster(err) && (wantsPassword(err) || noAuth(err) || noDatabase(err))
}

// noDatabase reports whether a server has fewer databases than the address says.
func noDatabase(err error) bool {
	return strings.Contains(err.Error(), "DB index is out of range")
}

// letIn says what to do about user and password. Sentinels have their own.
func (a address) letIn(err error) string {
	t, _ := splitAddress(a.reveal())
	user, password, colon := strings.Cut(strings.TrimSuffix(t.user, "@"), ":")
	switch {
	case noMaster(err):
		return "put user and password of the Sentinels into --redis (or " + redisEnv + "), as in redis+sentinel://user:password@host/mymaster"
	case a.sentinel() && t.query.Get("password") != "":
		return "check the user and the password of the data servers in --redis (or " + redisEnv + "), as in " +
			"redis+sentinel://host/mymaster?username=user&password=password"
	case a.sentinel():
		return "put user and password into --redis (or " + redisEnv + "): those of the data servers behind the master's name, as in " +
			"redis+sentinel://host/mymaster?username=user&password=password"
	}
	switch {
	case user != "" && !colon:
		return "there is a user and no password; write " + t.like(":password") + ", or " + t.like("user:password")
	case password != "":
		return "check the user and the password in --redis (or " + redisEnv + ")"
	}
	return "put user and password into --redis (or " + redisEnv + "), as in " + t.like("user:password")
}

// wantsPassword reports whether a server refused to talk to us without another password than the
// one it got.
func wantsPassword(err error) bool {
	if is := lua.AuthProblemOf(err); is == lua.AuthMissing || is == lua.AuthWrong {
		return true
	}
	text := err.Error() // Sentinel's errors are only text
	return slices.ContainsFunc([]string{"NOAUTH", "WRONGPASS", "unauthenticated"},
		func(word string) bool { return strings.Contains(text, word) })
}

// noAuth reports whether a server does not know the command by which go-redis says who we are.
func noAuth(err error) bool {
	return !noMaster(err) && noAuthForm.MatchString(err.Error())
}

var noAuthForm = regexp.MustCompile("(?i)unknown command ['`\"]auth['`\"]")

// unanswered says what to do about a server that did not answer. What a handshake of TLS comes to
// when the two sides do not agree has the text of either side, and reads like a riddle.
func (a address) unanswered(err error) string {
	var unknown *tls.CertificateVerificationError
	var host x509.HostnameError
	var alert tls.AlertError
	text := err.Error()
	switch {
	case noMaster(err) && wantsPassword(err):
		return a.letIn(err)
	case noMaster(err):
		return "are these Sentinels, and do they know a master of that name?"
	case errors.As(err, &host):
		return "name the server as its certificate does"
	case errors.As(err, &unknown), strings.Contains(text, "x509:"):
		return "give the certificate of its authority as --tls-ca"
	case errors.As(err, &alert), strings.Contains(text, "remote error: tls:"):
		return "give a certificate that it knows the authority of, as --tls-cert and --tls-key"
	case strings.HasSuffix(text, "EOF") && !a.tls():
		return "if it speaks TLS there, write rediss://"
	case a.tls() && hungUp(text):
		return "if it asks for a certificate, give one that it knows the authority of, as --tls-cert and --tls-key"
	case a.tls(): // Redis waits in silence for the rest of what it takes for a command
		return "is it running, is --redis (or " + redisEnv + ") right, and does it speak TLS there?"
	}
	return "is it running, and is --redis (or " + redisEnv + ") right?"
}

// hungUp reports whether the server closed the connection. In TLS 1.3 it judges our certificate when we hold the
// handshake to be over: its alert may be lost to what we have written meanwhile.
func hungUp(text string) bool {
	return slices.ContainsFunc([]string{"connection reset by peer", "broken pipe", "EOF", "connection was aborted",
		"forcibly closed"}, func(end string) bool { return strings.Contains(text, end) })
}
