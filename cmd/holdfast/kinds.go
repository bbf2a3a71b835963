package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// lockKind is a kind of lock that "run" takes.
type lockKind struct {
	name, about string
	atLeast     bool // it can stay taken after its command has ended
	lock        func(ctx context.Context, r *runner, opts []holdfast.Option) (*holdfast.Hold, error)
}

// by takes a lock of one server that is a Locker.
func by(locker func(c *holdfast.Client, r *runner) holdfast.Locker,
) func(context.Context, *runner, []holdfast.Option) (*holdfast.Hold, error) {
	return func(ctx context.Context, r *runner, opts []holdfast.Option) (*holdfast.Hold, error) {
		return locker(r.clients[0], r).Lock(ctx, opts...)
	}
}

// quorumKind is the only one that is asked of several servers.
const quorumKind = "redlock"

// lockKinds are in the order of the help. The first is the default.
var lockKinds = []*lockKind{
	{"rlock", "the fastest; the first to ask when it is free gets it", true,
		by(func(c *holdfast.Client, r *runner) holdfast.Locker { return rlock.New(c, r.name) })},
	{"fair", "in the order of arrival", true,
		by(func(c *holdfast.Client, r *runner) holdfast.Locker { return fairlock.New(c, r.name) })},
	{"rw-read", "together with other readers, and with no writer", false,
		by(func(c *holdfast.Client, r *runner) holdfast.Locker { return rwlock.New(c, r.name).RLocker() })},
	{"rw-write", "alone, before readers that come later", true,
		by(func(c *holdfast.Client, r *runner) holdfast.Locker { return rwlock.New(c, r.name) })},
	{"semaphore", "at most N holders at a time: --permits", false,
		func(ctx context.Context, r *runner, opts []holdfast.Option) (*holdfast.Hold, error) {
			return semaphore.New(r.clients[0], r.name, r.permits).Acquire(ctx, r.take, opts...)
		}},
	{"election", "as the leader; others see its --value", false,
		func(ctx context.Context, r *runner, opts []holdfast.Option) (*holdfast.Hold, error) {
			return election.New(r.clients[0], r.name).Campaign(ctx, r.value, opts...)
		}},
	{quorumKind, "on a majority of independent masters: three or five --redis", true,
		func(ctx context.Context, r *runner, opts []holdfast.Option) (*holdfast.Hold, error) {
			return redlock.New(r.clients, r.name).Lock(ctx, opts...)
		}},
	{severalKind, "several at once, all or none: --name and each --also", true, lockSeveral},
}

// otherNames are those by which "ls" and the packages call a kind.
var otherNames = map[string]string{"fairlock": "fair"}

// kindConfig is what the flags amount to that say which kind of lock it is.
type kindConfig struct {
	kindName string
	kind     *lockKind // of kindName, after checkKind
	permits  int
	take     int
	value    string
	also     []string
}

func (c *kindConfig) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.kindName, "kind", lockKinds[0].name, "which `KIND` of lock; see above")
	f.IntVar(&c.permits, "permits", 0, "of a semaphore: there are `N`, if the server does not know yet (required with --kind semaphore)")
	f.IntVar(&c.take, "take", 1, "of a semaphore: CMD needs `N` of the permits")
	host, _ := os.Hostname() // without it the leader says nothing of itself
	f.StringVar(&c.value, "value", host, "of an election: the `TEXT` that others see of the leader; default this machine's name")
	f.Lookup("value").DefValue = ""
	f.StringArrayVar(&c.also, "also", nil, "of a multilock: the `NAME` of one more lock; may be given several times (required with --kind multilock)")
	names := make([]string, len(lockKinds))
	for i, k := range lockKinds {
		names[i] = cobra.CompletionWithDesc(k.name, k.about)
	}
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

// kindsHelp is the part of the help that lists the kinds.
func kindsHelp() string {
	var b strings.Builder
	for _, k := range lockKinds {
		fmt.Fprintf(&b, "  %-10s %s\n", k.name, k.about)
	}
	return b.String()
}

func kindNames() string {
	names := make([]string, len(lockKinds))
	for i, k := range lockKinds {
		names[i] = k.name
	}
	return strings.Join(names, ", ")
}

// checkKind finds the kind, and what does not go with it.
func (c *runConfig) checkKind(value bool) error {
	if c.kindName == "rwlock" {
		return fail(exitUsage, "--kind is %q, which has two sides; use rw-read or rw-write", c.kindName)
	}
	at := slices.IndexFunc(lockKinds, func(k *lockKind) bool { return k.name == cmp.Or(otherNames[c.kindName], c.kindName) })
	if at < 0 {
		return fail(exitUsage, "--kind is %q, which is not a kind; use one of %s", c.kindName, kindNames())
	}
	c.kind = lockKinds[at]
	servers := len(c.addresses)
	switch {
	case c.kind.name == quorumKind && servers < 3:
		return fail(exitUsage, "--kind is %s, which needs a majority of independent masters, and --redis has %d; "+
			"give --redis three or five times, or put as many into %s with spaces between them", quorumKind, servers, redisEnv)
	case c.kind.name != quorumKind && servers > 1:
		return fail(exitUsage, "--kind is %s, which is asked of one Redis, and --redis has %d; give one, or --kind %s",
			c.kind.name, servers, quorumKind)
	case c.least.Duration > 0 && !c.kind.atLeast:
		return fail(exitUsage, "--at-least is %v, and a lock of --kind %s never outlasts its command; leave it out, or use --kind %s",
			c.least.Duration, c.kind.name, lockKinds[0].name)
	case c.kind.name == "semaphore" && c.permits == 0:
		return fail(exitUsage, "--kind semaphore needs --permits; say how many run at a time, as in --permits 3")
	case c.kind.name == "semaphore" && c.permits < 1:
		return fail(exitUsage, "--permits is %d; say how many run at a time, as in --permits 3", c.permits)
	case c.kind.name == "semaphore" && (c.take < 1 || c.take > c.permits):
		return fail(exitUsage, "--take is %d; take from 1 to all of the %d of --permits", c.take, c.permits)
	case c.kind.name != "semaphore" && c.permits != 0:
		return fail(exitUsage, "--permits is %d, and --kind is %s; use --kind semaphore, or leave it out", c.permits,
			c.kind.name)
	case c.kind.name != "semaphore" && c.take != 1:
		return fail(exitUsage, "--take is %d, and --kind is %s; use --kind semaphore, or leave it out", c.take, c.kind.name)
	case value && c.kind.name != "election":
		return fail(exitUsage, "--value is %s, and --kind is %s; use --kind election, or leave it out", printable.Quote(c.value), c.kind.name)
	}
	return c.checkAlso()
}
