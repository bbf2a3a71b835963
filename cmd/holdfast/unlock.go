package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/words"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/printable"
)

const unlockLong = `Takes the lock NAME from one holder, and wakes the waiters. Use it if the holder is known to be dead, or hangs. The
command ends only the hold of --owner, or the grant of --token; "holdfast inspect NAME" shows both. If somebody else
has the lock by now, the command changes nothing, and the code is 79. From readers and permits it takes those of the
owner, and no others.

A holder that is alive works on until it learns of its loss, at its next renewal, within a third of its lease. Only
fencing tokens protect from that. If you can reach the process, stop it instead, and let it unlock.

On a terminal the command asks first; elsewhere give --yes. With several --redis, for a redlock, it takes the owner's
part at each master. Use --owner there, as tokens may differ.

Exit codes:
  0      the hold was ended
  1      not confirmed; nothing was changed
  64     bad flag or argument
  69     Redis did not answer; if the message says so, the hold may have ended
  79     somebody else has the lock, or it was granted again; nothing was changed
  80     nobody has the lock; nothing was changed
  125    NAME is the key of something else, or Redis refuses: its password, or a permission
  128+n  ended by signal n

` + redisForms

// unlockConfig is what the flags of "unlock" amount to.
type unlockConfig struct {
	connection
	name             string
	grant            inspect.Grant
	force, yes, json bool
}

func newUnlock() *cobra.Command {
	var c unlockConfig
	cmd := &cobra.Command{
		Use:   "unlock --force NAME --token N|--owner OWNER",
		Short: "Take a lock from a holder that is dead or hangs, and from no other",
		Long:  unlockLong,
		Example: `  holdfast inspect nightly-report     # who has it, and the token
  holdfast unlock --force nightly-report --token 1764070102193847

  # in a script: only if that process still has it
  holdfast unlock --force nightly-report --owner "$OWNER" --yes ||
    [ $? -eq 79 ] || [ $? -eq 80 ]`,
		DisableFlagsInUseLine: true,
		Args:                  oneName("unlock"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.name = args[0]
			if err := c.check(cmd.Flags().Changed("token")); err != nil {
				return err
			}
			return c.unlock(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&c.force, "force", false, "take it from whoever --token or --owner names (required: nothing else unlocks another process's lock)")
	f.Uint64Var(&c.grant.Token, "token", 0, "end the grant with the token `N`, and not the next one")
	f.StringVar(&c.grant.Owner, "owner", "", "end the hold of this `OWNER`: <uuid>:h<number>, as \"holdfast inspect\" shows it")
	f.BoolVar(&c.yes, "yes", false, "do not ask")
	f.BoolVar(&c.json, "json", false, "say what was done as a JSON document; does not ask, so it needs --yes")
	c.connection.addTo(cmd)
	return cmd
}

// permitForm is what stands for an owner in the permits of Redisson: their names in hexadecimal.
var permitForm = regexp.MustCompile(`^(?:[0-9a-f]{2})+$`)

// isOwner reports whether a text can be an owner. A label, which "ls" shows in the place of its owner, cannot.
func isOwner(text string) bool { return ownerForm.MatchString(text) || permitForm.MatchString(text) }

func (c *unlockConfig) check(token bool) error {
	switch {
	case !c.force:
		return fail(exitUsage, `--force is missing; without it only a holder unlocks. See who that is by "%s"`, c.inspecting())
	case c.grant == inspect.Grant{} && !token:
		return fail(exitUsage, `--token or --owner is missing; say which hold is to end, see "%s"`, c.inspecting())
	case c.grant.Owner != "" && !isOwner(c.grant.Owner):
		return fail(exitUsage, `--owner is %s; use <uuid>:h<number>, as "%s" shows it`, printable.Quote(c.grant.Owner), c.inspecting())
	case token && c.grant.Token == 0:
		return fail(exitUsage, `--token is 0, which no grant has; see "%s"`, c.inspecting())
	case len(c.addresses) > 1 && c.grant.Owner == "":
		return fail(exitUsage, "--owner is missing; with several --redis a token is not enough, as each master may have its own")
	}
	return nil
}

// inspecting is the command that shows the lock.
func (c *unlockConfig) inspecting() string { return words.Command("inspect", c.flags(), c.name) }

// terminal reports whether somebody can be asked.
func terminal(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // a file descriptor fits
}

func (c *unlockConfig) unlock(in io.Reader, stdout, stderr io.Writer) error {
	if !c.yes && (c.json || !terminal(in)) {
		return fail(exitUsage, "--yes is missing; there is no terminal to ask on, so say that you mean it")
	}
	ctx, stop := untilSignal()
	defer stop()
	return c.inspectors(ctx, func(each []inspector) error {
		if !c.yes {
			if err := c.ask(ctx, each, in, stderr); err != nil {
				return err
			}
		}
		if len(each) == 1 {
			ended, err := each[0].End(ctx, c.name, c.grant)
			if err != nil {
				return c.refused(ctx, err)
			}
			return c.said(stdout, stderr, ended, "")
		}
		return c.everywhere(ctx, each, stdout, stderr)
	})
}

// everywhere ends an owner's part of a quorum lock at each master.
func (c *unlockConfig) everywhere(ctx context.Context, each []inspector, stdout, stderr io.Writer) error {
	done := 0
	var first error
	for n, i := range each {
		ended, err := i.End(ctx, c.name, c.grant)
		at := fmt.Sprintf(" at master %d of %d, %s", n+1, len(each), i.address)
		if err == nil {
			done++
			err = c.said(stdout, stderr, ended, at)
		} else {
			warn(stderr, "%s: %v", at[1:], err)
		}
		if first == nil && err != nil {
			first = err
		}
	}
	if done > 0 {
		return nil
	}
	return c.refused(ctx, first)
}

// ask shows the lock, and asks whether it is meant.
func (c *unlockConfig) ask(ctx context.Context, each []inspector, in io.Reader, stderr io.Writer) error {
	missed := c.missed(stderr, len(each))
	meant := fmt.Sprintf("End the hold of %s on %s", c.whom(), visible(c.name))
	for _, i := range each {
		l, err := i.Lock(ctx, c.name)
		if err != nil && len(each) == 1 {
			return c.refused(ctx, err)
		} else if err != nil {
			if err := missed.add(ctx, i, err); err != nil {
				return err
			}
			continue
		}
		if l.Kind == inspect.Nothing || l.Kind == inspect.Foreign {
			continue // End says it
		}
		s := newSheet(stderr, c.flags())
		s.noEnd = true // which is asked below
		if err := s.print(&l, len(each) > 1); err != nil {
			return failure{exitHoldfast, err}
		}
		if h := slices.IndexFunc(l.Holders, c.means(&l)); h >= 0 {
			meant = endOf(&l, l.Holders[h])
		}
	}
	fmt.Fprint(stderr, wrapped(meant+"? A holder that is alive works on for a while. (y/N) ", terminalWidth(stderr)))
	return c.answered(ctx, in, stderr)
}

// means reports whether a holder is the one whose hold is to end. If it is not, nothing will end.
func (c *unlockConfig) means(l *inspect.Lock) func(inspect.Holder) bool {
	return func(h inspect.Holder) bool {
		if c.grant.Token != 0 && (c.grant.Token != l.Token || !oneGrant(l)) {
			return false
		}
		return c.grant.Owner == "" || c.grant.Owner == h.Owner
	}
}

// answered waits for the answer.
func (c *unlockConfig) answered(ctx context.Context, in io.Reader, stderr io.Writer) error {
	answers := make(chan string, 1)
	go func() { // ends with the process, if nobody answers
		line, _ := bufio.NewReader(in).ReadString('\n')
		answers <- line
	}()
	select {
	case answer := <-answers:
		if !strings.HasSuffix(answer, "\n") { // Ctrl-D
			fmt.Fprintln(stderr)
		}
		if word := strings.ToLower(strings.TrimSpace(answer)); word == "y" || word == "yes" {
			return nil
		}
		return fail(exitFailed, "not confirmed; nothing was changed")
	case <-ctx.Done():
		fmt.Fprintln(stderr)
		return context.Cause(ctx)
	}
}

func (c *unlockConfig) whom() string {
	if c.grant.Owner != "" {
		return visible(c.grant.Owner)
	}
	return "token " + strconv.FormatUint(c.grant.Token, 10)
}

// refused is why nothing was done.
func (c *unlockConfig) refused(ctx context.Context, err error) error {
	name := printable.Quote(c.name)
	switch {
	case errors.Is(err, inspect.ErrStale):
		return fail(exitStale, `%s was not unlocked: %w; look at it again by "%s"`, name, err, c.inspecting())
	case errors.Is(err, inspect.ErrFree):
		return fail(exitFree, "%s was not unlocked: %w", name, err)
	case strings.Contains(err.Error(), "name the owner"):
		return fail(exitUsage, `%w; use --owner, see "%s"`, err, c.inspecting())
	case strings.Contains(err.Error(), "may have ended"):
		return failure{exitNoServer, err}
	case strings.Contains(err.Error(), "the key is "), strings.Contains(err.Error(), "looks like a latch"):
		return fail(exitHoldfast, "%s was not unlocked: %w", name, err)
	}
	return c.explain(badName(cause(ctx, err)))
}

// endedDocument is what "unlock --json" says. Its fields stay; there may be more.
type endedDocument struct {
	Name    string       `json:"name"`
	Bytes   string       `json:"name_base64,omitempty"` // of a name that is no UTF-8
	Kind    inspect.Kind `json:"kind"`
	Owner   string       `json:"owner"`
	Label   string       `json:"label,omitempty"`
	UntilMS *int64       `json:"holder_knows_within_ms,omitempty"`
	Untold  string       `json:"untold,omitempty"`
}

// said says what was done, and when the holder will notice.
func (c *unlockConfig) said(stdout, stderr io.Writer, e inspect.Ended, where string) error {
	if c.json {
		return printJSON(stdout, endedDocument{c.name, bytesOf(c.name), e.Kind, e.Holder.Owner, e.Holder.Label, millis(e.Until), e.Untold}, "")
	}
	text := fmt.Sprintf("%s: the hold of %s was ended%s. %s", visible(c.name), visible(e.Holder.Owner), where, notices(&e))
	_, err := fmt.Fprintln(stdout, wrapped(text, terminalWidth(stdout)))
	if e.Untold != "" {
		warn(stderr, "the waiters could not be told (%s); they find out when the lease that they know of ends", e.Untold)
	}
	return err
}

// notices is when the holder learns of it.
func notices(e *inspect.Ended) string {
	switch {
	case e.Holder.Redisson:
		return "Its holder is a client of Redisson, which is not told: its unlock fails."
	case e.Holder.Left:
		return "Its holder had unlocked already."
	case e.Until >= 0:
		return fmt.Sprintf("Its holder notices at its next renewal, and within %s at the latest.", short(e.Until))
	}
	return "Its holder notices at its next renewal, if it is alive: when that is, Redis does not know."
}
