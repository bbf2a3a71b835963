package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/words"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/printable"
)

const inspectLong = `Shows all that Redis has of a lock: its kind, its holders and what is left of their leases, its token, the waiters
in their order, permits, a latch's count, a leader and its value, and what looks wrong. NAME is spelled as it stands in
Redis, with a prefix if the clients have one. The command changes nothing. With several --redis it shows each master's
part.

A lock of rlock, of fairlock without waiters, and a master's part of redlock look the same in Redis: they are a "lock".
"granted" comes from the token, which is the time of the grant.

A replica does not know how many connections listen, and ends no hold. The command says so, and shows neither.

Exit codes:
  0      shown
  64     bad flag or argument
  69     Redis did not answer; of several --redis one did not, and the others' parts are shown
  80     there is nothing at NAME, and there was nothing within the last hour
  125    NAME is the key of something else, or Redis refuses: its password, or a permission
  128+n  ended by signal n

` + redisForms

// inspectConfig is what the flags of "inspect" amount to.
type inspectConfig struct {
	connection
	name string
	json bool
}

func newInspect() *cobra.Command {
	var c inspectConfig
	cmd := &cobra.Command{
		Use:   "inspect NAME",
		Short: "Show all that Redis has of a lock, and what looks wrong",
		Long:  inspectLong,
		Example: `  holdfast inspect orders:42
  holdfast inspect orders:42 --json | jq -r '.holders[].owner'

  # each master's part of a redlock
  holdfast inspect ledger --redis redis://a --redis redis://b --redis redis://c`,
		Args: oneName("inspect"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.name = args[0]
			return c.show(cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&c.json, "json", false, "one JSON document; of several --redis one a line")
	c.connection.addTo(cmd)
	return cmd
}

// oneName refuses all but one argument, the name.
func oneName(command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if err := noAddress(args...); err != nil {
			return err
		}
		if len(args) == 1 && args[0] == "" {
			return fail(exitUsage, `"holdfast %s" takes the name of a lock, and got an empty one; "holdfast ls" lists names`, command)
		}
		if len(args) != 1 {
			return fail(exitUsage, `"holdfast %s" takes the name of one lock, and got %d; "holdfast ls" lists names`, command, len(args))
		}
		return nil
	}
}

func (c *inspectConfig) show(stdout, stderr io.Writer) error {
	ctx, stop := untilSignal()
	defer stop()
	return c.inspectors(ctx, func(each []inspector) error {
		nothing, foreign := 0, ""
		missed := c.missed(stderr, len(each))
		for n, i := range each {
			l, err := i.Lock(ctx, c.name)
			if err != nil {
				if err := missed.add(ctx, i, err); err != nil {
					return err
				}
				continue
			}
			replica := i.isReplica(ctx, stderr, i.at(len(each) > 1))
			if replica {
				l = l.AtReplica()
			}
			switch l.Kind {
			case inspect.Nothing:
				nothing++
			case inspect.Foreign:
				foreign = l.Problems[0].Text
			}
			switch {
			case c.json && len(each) > 1:
				err = printJSON(stdout, documentOf(&l), "")
			case c.json:
				err = printJSON(stdout, documentOf(&l), "  ")
			case l.Kind == inspect.Nothing && len(each) == 1, l.Kind == inspect.Foreign:
			default:
				if len(each) > 1 {
					fmt.Fprintf(stdout, "master %d of %d: %s\n", n+1, len(each), i.address)
				}
				s := newSheet(stdout, c.flags())
				s.noEnd = replica
				err = s.print(&l, len(each) > 1)
			}
			if err != nil {
				return failure{exitHoldfast, err}
			}
		}
		switch {
		case foreign != "":
			return fail(exitHoldfast, "%s: %s", printable.Quote(c.name), foreign)
		case missed.first != nil:
			return missed.end()
		case nothing == len(each):
			return fail(exitFree, `there is nothing at %s, nor was there within the last hour; %s`, printable.Quote(c.name), otherName(c.name))
		}
		return nil
	})
}

// otherName says how to find the name that was meant. One that is spelled as the list shows it, in quotes, is
// probably another name, which a shell takes in another spelling.
func otherName(name string) string {
	if meant, err := strconv.Unquote(name); err == nil && name[0] == '"' && meant != "" && visible(meant) == name && shellWord(meant) != "NAME" {
		return fmt.Sprintf("if %s is how a list shows the name, write it as %s", name, shellWord(meant))
	}
	return `"holdfast ls" lists the names there are`
}

// badName is the error of a name that no lock can have.
func badName(err error) error {
	if text := err.Error(); strings.HasPrefix(text, "name ") {
		return failure{exitUsage, err}
	}
	return err
}

// sheet shows one lock.
type sheet struct {
	*screen
	columns int
	redis   string // the flags that say where Redis is, for another command; empty: none are needed
	noEnd   bool   // no command that ends a hold: a key does it, or the server is a replica
}

func newSheet(out io.Writer, redis string) *sheet {
	s := &sheet{screen: newScreen(out), columns: terminalWidth(out), redis: redis}
	if s.columns == 0 {
		s.columns = widest
	}
	return s
}

// sheetIndent is where what is said begins, behind what it is about.
const sheetIndent = 11

var kindsInWords = map[inspect.Kind]string{
	inspect.Plain:   "lock (rlock, fairlock without waiters, or a master's part of redlock)",
	inspect.Free:    "free; it was a lock within the last hour",
	inspect.Latch:   "latch, or a counter of somebody's: the two look the same",
	inspect.Nothing: "nothing",
}

// print shows it. part says that it is one master's part of a quorum lock.
func (s *sheet) print(l *inspect.Lock, part bool) error {
	s.title(visible(l.Name))
	kind := string(l.Kind)
	if long, ok := kindsInWords[l.Kind]; ok {
		kind = long
	}
	s.line("kind", kind)
	if l.Token > 0 {
		text := tokenOf(l)
		if granted := l.Granted(); !granted.IsZero() {
			text += ", granted " + granted.UTC().Format("2006-01-02 15:04:05.000 MST")
		}
		s.line("token", text)
	}
	s.holders(l)
	s.details(l)
	s.waiters(l)
	for _, p := range l.Problems {
		s.painted(yellow, "problem", p.Text)
	}
	if how := ending(l, part, s.redis); how != "" && !s.noEnd { // on one line, as it is: a shell would run each of two, and a name may have two spaces
		line := pad("to end it", sheetIndent) + how
		if n := len(l.Holders); n > 1 {
			fmt.Fprintln(s.out, s.paint(dim, fmt.Sprintf("to end the first of the %d:", n)))
			line = strings.Repeat(" ", sheetIndent) + how
		}
		fmt.Fprintln(s.out, s.paint(dim, line))
	}
	_, err := fmt.Fprintln(s.out)
	return err
}

// line prints what something is about, and behind it a text on as many lines as it takes.
func (s *sheet) line(about, text string) { s.painted("", about, text) }

func (s *sheet) painted(colour, about, text string) {
	for n, line := range wrap(strings.Repeat(" ", sheetIndent)+text, s.columns) {
		if n == 0 {
			line = pad(about, sheetIndent) + strings.TrimLeft(line, " ")
		}
		if colour != "" {
			line = s.paint(colour, line)
		}
		fmt.Fprintln(s.out, line)
	}
}

func (s *sheet) holders(l *inspect.Lock) {
	for n, h := range l.Holders {
		about := ""
		if n == 0 {
			about = "held by"
		}
		s.line(about, ownerAndLabel(h.Owner, h.Label))
		s.line("", strings.Join(factsOf(l, h), ", "))
	}
	if l.More && len(l.Holders) > 0 && len(l.Holders) >= len(l.Queue) {
		s.line("", "and more")
	}
}

// factsOf are what is to be said of a holder behind its owner.
func factsOf(l *inspect.Lock, h inspect.Holder) (facts []string) {
	switch {
	case h.Left && h.Remaining < 0:
		return []string{"unlocked; stays taken (HoldAtLeast)"}
	case h.Left:
		return []string{"unlocked; stays taken for " + short(h.Remaining) + " (HoldAtLeast)"}
	case h.Mode != "":
		facts = append(facts, string(h.Mode)+"s")
	case l.Permits != nil:
		facts = append(facts, plural(h.Count, "permit"))
	}
	if granted := l.Granted(); !granted.IsZero() {
		facts = append(facts, "for "+short(l.At.Sub(granted)))
	}
	facts = append(facts, lease(h.Remaining))
	if h.Count != 1 && l.Permits == nil {
		facts = append(facts, fmt.Sprintf("%d times", h.Count))
	}
	if h.Redisson {
		facts = append(facts, "a client of Redisson")
	}
	return facts
}

func lease(left time.Duration) string {
	if left < 0 {
		return "no end"
	}
	return short(left) + " of its lease left"
}

func (s *sheet) details(l *inspect.Lock) {
	if l.Permits != nil {
		s.line("permits", fmt.Sprintf("%d in all, %d free, %d out", l.Permits.All, l.Permits.Free, l.Permits.Out))
	}
	if l.Kind == inspect.Latch {
		ends := "no end"
		if l.Remaining >= 0 {
			ends = "opens by itself in " + short(l.Remaining)
		}
		s.line("count", fmt.Sprintf("%d left; %s", l.Count, ends))
	}
	if l.Leader != nil {
		s.line("says", visible(l.Leader.Value))
	}
}

// uncounted is why there may be more waiters than are shown.
const uncounted = "waiters inside the holder's process are not counted"

func (s *sheet) waiters(l *inspect.Lock) {
	if text := waitingInWords(l); text != "" {
		s.line("waiting", text)
	}
	for n, w := range l.Queue {
		text := fmt.Sprintf("%d. %s", n+1, visible(w.Owner))
		if l.Kind == inspect.ReadWrite {
			text = visible(w.Owner) + " to write"
		}
		if w.Label != "" {
			text += " (" + visible(w.Label) + ")"
		}
		switch {
		case w.Remaining <= 0:
			text += ", its place does not count any more"
		case w.Listening == 0:
			text += ", nobody listens there: dead, or out of reach"
		default:
			text += ", keeps its place for " + short(w.Remaining) + " unless renewed"
		}
		if w.Wants > 1 {
			text += ", wants " + plural(w.Wants, "permit")
		}
		if w.Redisson {
			text += ", a client of Redisson"
		}
		s.line("", text)
	}
	if l.More && len(l.Queue) > 0 {
		s.line("", "and more")
	}
}

// waitingInWords is how many wait, and who is not counted. Empty: nobody waits, and the kind has no places.
func waitingInWords(l *inspect.Lock) string {
	var parts []string
	switch n, about := l.Waiting(); {
	case about && l.Waiters > 0:
		parts = append(parts, fmt.Sprintf("%s for a release, %d of them with a place", plural(n, "listener"), l.Waiters))
	case about:
		parts = append(parts, plural(n, "listener")+" for a release")
	case n < 0 && l.Waiters < 0 && l.Listening < 0:
		parts = append(parts, "not known: the server does not tell who listens")
	case n < 0:
		parts = append(parts, "not known")
	case l.Waiters >= 0:
		parts = append(parts, strconv.Itoa(n))
	}
	if _, about := l.Waiting(); about && l.Kind == inspect.ReadWrite {
		parts = append(parts, "readers that wait have no places")
	} else if about && l.Waiters < 0 {
		parts = append(parts, "who that is, Redis does not know")
	}
	if l.Uncounted() {
		parts = append(parts, uncounted)
	}
	return strings.Join(parts, "; ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// ending is the command that ends the first hold. Of a part of a quorum lock the owner is named, as tokens
// of masters may differ.
func ending(l *inspect.Lock, part bool, redis string) string {
	if len(l.Holders) == 0 {
		return ""
	}
	whose := " --owner " + shellWord(l.Holders[0].Owner)
	if !part && oneGrant(l) {
		whose = " --token " + tokenOf(l)
	}
	return words.Command("unlock --force", whose+redis, l.Name)
}

// oneGrant reports whether the token of a lock stands for its only hold.
func oneGrant(l *inspect.Lock) bool {
	return l.Token > 0 && len(l.Holders) == 1 && l.Holders[0].Mode != inspect.Read && l.Permits == nil
}

// shellWord quotes what a shell would take for something else.
func shellWord(text string) string { return words.Shell(text) }
