package main

import (
	"fmt"
	"os"
	osuser "os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// runConfig is what the flags of "run" amount to.
type runConfig struct {
	connection
	kindConfig
	name  string
	wait  span
	lease span
	least span
	grace span
	label string
	argv  []string

	evenIfFailed bool
}

var runLong = `Runs CMD while the lock NAME is held, and unlocks when CMD has ended.

CMD gets HOLDFAST_NAME, HOLDFAST_OWNER and HOLDFAST_TOKEN in its environment. The token grows with every grant of the
name. Let the store that CMD writes to refuse a token smaller than the greatest it has seen.

CMD runs in a process group of its own, which has the terminal if holdfast was started in the foreground of one. So
Ctrl-C reaches CMD. Ctrl-Z does not suspend it: CMD has the lock, and goes on. If another signal stops CMD, or if it
waits for the terminal in the background, holdfast says so and keeps the lock. holdfast forwards SIGINT, SIGTERM,
SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 to the group. The first four also continue a stopped group.

If the lock is lost, the group gets SIGTERM, and SIGKILL after --grace. Until it has ended, it may run together with
the next holder. The same happens if holdfast itself is killed, after half of --lease at the latest: a second process,
the guard, does it. holdfast does not wait for processes that CMD leaves behind.

With --at-least the lock stays taken for that time, so that CMD runs once in a period. If CMD fails (an exit code other
than 0, or it cannot be executed), the lock is given back at once, so that another machine or the next attempt can run
it. With --even-if-failed it stays taken. If holdfast itself is killed, it stays taken too.

Kinds of lock:
` + kindsHelp() + `
A name is for one kind of lock. Readers have the token of the last write, and share it.

A multilock consists of rlocks. Two multilocks never wait for each other, in whatever order they name their locks.
HOLDFAST_NAME is the name of --name, and HOLDFAST_TOKEN is the greatest of the tokens. HOLDFAST_NAME_1 and
HOLDFAST_TOKEN_1 are those of --name, those with 2 are of the first --also, and so on. If one of the locks is lost,
holdfast acts as for any lost lock, and the message names it.

--wait bounds the wait for other holders, not for Redis. If Redis does not answer, holdfast does not know whether there
is a holder to wait for. So it ends within seconds, with 69. To wait for Redis too, run it again while the code is 69.
At a terminal holdfast says after a second who has the lock.

Exit codes:
  n      that of CMD
  128+n  CMD was ended by signal n, or signal n ended the wait for the lock
  64     bad flag or argument
  69     Redis did not answer, so nobody knows who has the lock (EX_UNAVAILABLE); CMD did not run
  75     somebody else had the lock for all of --wait (EX_TEMPFAIL); CMD did not run
  76     the lock was lost while CMD ran; CMD was ended, and the message has its own exit code
  125    holdfast failed, for example because Redis refuses its password, or has something else under NAME; CMD did not run
  126    CMD was found and cannot be executed
  127    CMD was not found

` + redisForms

const runExample = `  # in a crontab, on every machine: one of them runs it, the others skip it,
  # also if it is short and their clocks are minutes apart
  holdfast run --name daily --wait 0 --at-least 10m -- ./report || [ $? -eq 75 ]

  # wait for up to ten minutes, on a server of your own
  holdfast run --name migrate --wait 10m --redis redis://db:6379/1 -- ./migrate

  # at most three at a time, over all machines
  holdfast run --name partner-api --kind semaphore --permits 3 --wait 1h -- \
    ./fetch.sh

  # two locks, or none
  holdfast run --name account:1 --kind multilock --also account:2 -- \
    ./transfer.sh

  # one that survives the loss of a Redis server: three independent masters
  holdfast run --name ledger --kind redlock \
    --redis redis://a --redis redis://b --redis redis://c -- ./post.sh

  # hand the fencing token to the command
  holdfast run --name ledger -- sh -c 'ledger --fence "$HOLDFAST_TOKEN"'`

func newRun() *cobra.Command {
	c := runConfig{
		wait:  span{5 * time.Second, 0, "5s, 500ms or 1m30s (0 tries once)"},
		lease: span{30 * time.Second, 100 * time.Millisecond, "30s"},
		least: span{0, 0, "10m, about half of the time between two runs (0 unlocks when CMD ends)"},
		grace: span{5 * time.Second, 0, "5s (0 kills at once)"},
	}
	cmd := &cobra.Command{
		Use:                   "run --name NAME [--kind KIND] [--wait 5s] [flags] -- CMD [ARG...]",
		Short:                 "Run a command while a lock is held",
		Long:                  runLong,
		Example:               runExample,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.argv = args
			if !cmd.Flags().Changed("label") && len(args) > 0 {
				c.label = ownLabel(args[0])
			}
			if err := c.check(cmd.Flags().Changed("value")); err != nil {
				return err
			}
			return run(c, cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // the flags behind CMD are CMD's, also without "--"
	f.StringVar(&c.name, "name", "", "the lock's `NAME`, which is its key in Redis (required)")
	f.Var(&c.wait, "wait", "how long to wait for the lock; 0 tries once")
	f.Var(&c.lease, "lease", "how long the lock outlives a holdfast that died; renewed every third of it")
	f.Var(&c.least, "at-least", "how long the lock stays taken after the grant, unless CMD fails: for one run in a period")
	f.BoolVar(&c.evenIfFailed, "even-if-failed", false, "with --at-least: the lock stays taken even if CMD fails")
	f.Var(&c.grace, "grace", "time between SIGTERM and SIGKILL for CMD when the lock is lost")
	f.StringVar(&c.label, "label", "", "the `TEXT` that others see of who has the lock; default user@host[pid] CMD, and \"\" for none")
	f.Lookup("label").DefValue = ""
	c.kindConfig.addTo(cmd)
	c.connection.addTo(cmd)
	return cmd
}

// ownLabel says who runs a command, without its arguments, which may have secrets. It is as much of that as a label may
// be.
func ownLabel(command string) string {
	who := ""
	if u, err := osuser.Current(); err == nil {
		who = u.Username
	}
	host, _ := os.Hostname()
	return keys.CleanLabel(fmt.Sprintf("%s@%s[%d] %s", who, host, os.Getpid(), filepath.Base(command)))
}

// guardCommand is for holdfast itself, which runs it beside the command.
const guardCommand = "guard"

func newGuard() *cobra.Command {
	return &cobra.Command{
		Use:    guardCommand + " GRACE",
		Short:  "A process that ends a command if holdfast is killed",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			grace, err := time.ParseDuration(args[0])
			if err == nil {
				guard(grace)
			}
			return err
		},
	}
}

// becomeCommand is for holdfast itself, too: what the command of "run" is until its guard is there.
const becomeCommand = "become"

func newBecome() *cobra.Command {
	return &cobra.Command{
		Use:                becomeCommand + " FD PATH ARG0 [ARG...]",
		Short:              "A process that waits until it is guarded, and becomes a command",
		Hidden:             true,
		Args:               cobra.MinimumNArgs(3),
		DisableFlagParsing: true, // the flags are the command's
		RunE: func(_ *cobra.Command, args []string) error {
			fd, err := strconv.ParseUint(args[0], 10, 31)
			if err != nil {
				return err
			}
			return become(uintptr(fd), args[1], args[2:])
		},
	}
}

// check finds what the parser cannot. value says that there is a --value.
func (c *runConfig) check(value bool) error {
	if err := noAddress(append([]string{c.name}, c.also...)...); err != nil {
		return err
	}
	switch {
	case c.name == "":
		return fail(exitUsage, `--name is missing; name the lock, as in "holdfast run --name nightly-report -- ./report.sh"`)
	case len(c.argv) == 0:
		return fail(exitUsage, `no command to run; put it behind "--", as in "holdfast run --name %s -- ./report.sh"`,
			shellWord(c.name))
	}
	if !keys.IsLabel(c.label) {
		return fail(exitUsage, "--label is %s; use at most %d bytes of text that can be printed", printable.Quote(c.label), keys.MaxLabel)
	}
	if c.evenIfFailed && c.least.Duration == 0 {
		return fail(exitUsage, "--even-if-failed is for --at-least, which is missing; leave it out, or add --at-least 10m")
	}
	return c.checkKind(value)
}
