package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

// severalKind takes the locks of --name and of each --also. (Rejected: several names in one flag. A name
// may have any character in it, so nothing is left to part them by.)
const severalKind = "multilock"

// names are the locks that are taken, in the order in which they were given.
func (c *runConfig) names() []string { return append([]string{c.name}, c.also...) }

// checkAlso finds what is wrong with the names of a multilock.
func (c *runConfig) checkAlso() error {
	switch several := c.kind.name == severalKind; {
	case several && len(c.also) == 0:
		return fail(exitUsage, "--also is missing; --kind %s takes the lock of --name and those of --also, as in --name a --also b", severalKind)
	case !several && len(c.also) > 0:
		return fail(exitUsage, "--also is %q, and --kind is %s; use --kind %s, or leave it out", c.also[0], c.kind.name, severalKind)
	}
	names := c.names()
	for i, name := range names {
		switch {
		case name == "":
			return fail(exitUsage, `--also is ""; name a lock, as in --also stock`)
		case slices.Contains(names[:i], name):
			return fail(exitUsage, "--also is %s, which is named before; leave it out", printable.Quote(name))
		}
	}
	return nil
}

// lockSeveral takes all of them, or none.
func lockSeveral(ctx context.Context, r *runner, opts []holdfast.Option) (*holdfast.Hold, error) {
	var members []holdfast.Locker
	for _, name := range r.names() {
		members = append(members, rlock.New(r.clients[0], name))
	}
	return multilock.New(members...).Lock(ctx, opts...)
}

// shown is what messages call a lock that is lost, or those of which one is.
func (c *runConfig) shown() string {
	if len(c.also) == 0 {
		return "the lock " + printable.Quote(c.name)
	}
	quoted := make([]string, 0, 1+len(c.also))
	for _, name := range c.names() {
		quoted = append(quoted, printable.Quote(name))
	}
	return "one of the locks " + strings.Join(quoted, ", ")
}

// environment is what the command gets to know of the hold. What one of several locks guards has to
// check the token of that one: the greatest of all is mostly another's.
func (r *runner) environment(hold *holdfast.Hold) []string {
	env := []string{
		"HOLDFAST_NAME=" + r.name,
		"HOLDFAST_OWNER=" + hold.Owner(),
		"HOLDFAST_TOKEN=" + strconv.FormatUint(hold.Token(), 10),
	}
	if r.kind.name != severalKind {
		return env
	}
	for i, name := range r.names() {
		n := strconv.Itoa(i + 1)
		env = append(env, "HOLDFAST_NAME_"+n+"="+name)
		if token, ok := fence.TokenOf(hold.Context(), name); ok {
			env = append(env, "HOLDFAST_TOKEN_"+n+"="+strconv.FormatUint(token, 10))
		}
	}
	return env
}
