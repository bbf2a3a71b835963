package main

import (
	"context"
	"io"
	"os"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/printable"
)

const lsLong = `Lists the locks in Redis: those that somebody has or waits for, and those that look wrong. PATTERN is as in KEYS of Redis:
* for anything, ? for a byte, [ab] for one of some, \ before one that is meant.

ls finds locks of every kind by keys that a grant leaves behind. It finds those of this library, and those of Redisson
that share names with it. It goes through all keys in small steps, on every master, writes nothing, and holds up no
server. With several --redis it lists the locks of all of them, each with what that master has: a terminal shows 2/NAME
for the second master, and other output has the address at the end.

Columns:
  - the name;
  - the kind: "lock" is an rlock, a fairlock without waiters, or a master's part of a redlock;
  - the owner, and how many more there are;
  - since when the owner has the lock;
  - what is left of its lease, or of a latch's time;
  - how many wait; ~2 is about two: so many connections listen for a release, because waiters have no places in Redis,
    or because readers wait, who have none; ? is not known, as of waiters inside the holder's process;
  - what looks wrong; "holdfast inspect NAME" says more.

The list has no order, as locks are printed when they are found. "holdfast ls | sort" sorts it by name.

--json prints one document for each lock on a line of its own: names as they stand in Redis, durations in milliseconds,
tokens as text.

A replica does not know how many connections listen. The command says so, and reports no dead queue.

Exit codes:
  0      listed, even if there are none
  64     bad flag or argument
  69     Redis did not answer; of several --redis one did not, and the others' locks are listed
  125    Redis refuses: its password, or a permission
  128+n  ended by signal n

` + redisForms

// lsConfig is what the flags of "ls" amount to.
type lsConfig struct {
	connection
	query inspect.Query
	json  bool
}

func newLs() *cobra.Command {
	var c lsConfig
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "List the locks in Redis, who has them and who waits",
		Long:  lsLong,
		Example: `  holdfast ls                       # all locks that are held or waited for
  holdfast ls 'orders:*' --waited   # of these, those that are waited for now
  holdfast ls --json | jq -r 'select(.problems) | .name'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fail(exitUsage, `"holdfast ls" takes one pattern, and got %d arguments; quote it, as in 'orders:*', or the shell fills it in`, len(args))
			}
			return noAddress(args...)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				c.query.Match = args[0]
			}
			return c.list(cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&c.query.Free, "all", false, "also locks that are free now and had a holder within the last hour")
	f.BoolVar(&c.query.Redisson, "redisson", false, "also locks that only Redisson has used; goes through all keys twice")
	f.BoolVar(&c.query.Contended, "waited", false, "only locks for whose release somebody listens; asks for the channels, not the keys")
	f.BoolVar(&c.json, "json", false, "a JSON document for each lock, one a line")
	c.connection.addTo(cmd)
	return cmd
}

func (c *lsConfig) list(stdout, stderr io.Writer) error {
	if c.query.Contended && (c.query.Redisson || c.query.Free) {
		return fail(exitUsage, "--waited asks for channels, and --redisson and --all for keys; leave --waited out, or the others")
	}
	ctx, stop := untilSignal()
	defer stop()
	return c.inspectors(ctx, func(each []inspector) error {
		t := newTable(stdout, len(each) > 1)
		missed := c.missed(stderr, len(each))
		for n, i := range each {
			t.master = n + 1
			answered := true
			for l, err := range i.Locks(ctx, c.query) {
				if err != nil {
					if err := missed.add(ctx, i, err); err != nil {
						return err
					}
					answered = false
					break
				}
				if i.isReplica(ctx, stderr, i.at(len(each) > 1)) {
					l = l.AtReplica()
				}
				var err error
				if c.json {
					err = printJSON(stdout, documentOf(&l), "")
				} else {
					err = t.add(&l)
				}
				if err != nil {
					return failure{exitHoldfast, err}
				}
			}
			if answered { // a list that is empty, too
				i.isReplica(ctx, stderr, i.at(len(each) > 1))
				if isNode(ctx, i.rdb) {
					warn(stderr, "%s%s", i.at(len(each) > 1), onNode)
				}
			}
		}
		if !c.json {
			t.end(stderr, &c.query)
		}
		return missed.end()
	})
}

// inspector is one for each --redis.
type inspector struct {
	*inspect.Inspector
	*role
	address address
}

// inspectors makes them, sees that the servers answer, and closes their connections behind f.
func (c *connection) inspectors(ctx context.Context, f func([]inspector) error) error {
	clients, err := c.all()
	if err != nil {
		return err
	}
	defer closeAll(clients)
	defer closeAtSignal(ctx, clients)()
	if err := c.reach(ctx, clients); err != nil {
		return err
	}
	each := make([]inspector, len(clients))
	for n, rdb := range clients {
		if each[n], err = newInspector(rdb, c.addresses[n]); err != nil {
			return failure{exitHoldfast, err}
		}
	}
	return f(each)
}

func newInspector(rdb redis.UniversalClient, a address) (inspector, error) {
	i, err := inspect.New(rdb, nil)
	return inspector{i, &role{rdb: rdb}, a}, err
}

// cause is why something was not done: the signal, if one ended it.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	return err
}

// printJSON prints a document: on one line, or indented.
func printJSON(out io.Writer, document any, indent string) error {
	return printable.JSON(out, document, indent)
}

// terminalWidth is how wide a terminal is, 0 if it is none.
func terminalWidth(out io.Writer) int {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) { //nolint:gosec // a file descriptor fits
		return 0
	}
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 { //nolint:gosec // a file descriptor fits
		return w
	}
	return columns
}
