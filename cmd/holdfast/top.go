package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/live"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/lua"
)

const topLong = `Shows the locks in Redis as they change: those with the most waiters, those held for longest, and those that change
hands. PATTERN is as in KEYS of Redis. Keys sort, filter, show all of a lock, and end a hold after a question; ? lists
them. With several --redis it shows the locks of all, each with the number of its master.

top takes at most --share of each server's time. It reads the locks on the screen every --every, if the share allows
it. It finds locks with waiters by the server's channels. It finds other names by going over the keys. With many keys a
pass takes minutes: "names 3m12s old" says when the last pass began. top does not show a lock yet that came since then
and that nobody waits for.

GRANTS is the number of grants in a second. top counts one grant when a look finds another fencing token, however many
there were since the look before. If every look finds another, top estimates the rate from the time since the last
grant (~). It does not see grants without a token, nor hand-offs among the goroutines of one process.

x ends a hold as "holdfast unlock --force" does: that of the owner and the token on the screen, and no other. If
somebody else has the lock by then, x changes nothing, and top says so. With --read-only there is no such key. A
replica does not know how many connections listen, and ends no hold: top says so, and reports no dead queue.

Without a terminal use --json or --once. --json prints a document for each lock on a line, --rows of them every
--every, in frames that begin with a document of their own. --once goes over the keys as fast as the servers answer,
and prints one frame.

Exit codes:
  0      quit, or a signal ended it
  64     bad flag or argument, or no terminal
  69     Redis did not answer at the beginning; later, top asks again; of several --redis most did not, or with --once one
  125    Redis refuses: its password, or a permission

` + redisForms

// topConfig is what the flags of "top" amount to.
type topConfig struct {
	connection
	query                string
	every                span
	sort                 string
	share                float64 // of 100
	rows                 int
	readOnly, json, once bool
	out                  io.Writer
	replicas             map[int]bool  // of the servers, by their numbers
	down                 map[int]error // those that did not answer at the beginning, while a majority did
	node                 bool          // a server is a node of a Cluster, of which not all are asked
}

func newTop() *cobra.Command {
	c := topConfig{every: span{time.Second, 200 * time.Millisecond, "1s or 5s"}}
	cmd := &cobra.Command{
		Use:   "top [PATTERN]",
		Short: "Show the locks as they change: who waits, who has had one for longest",
		Long:  topLong,
		Example: `  holdfast top
  holdfast top 'orders:*' --sort oldest --read-only
  holdfast top --once | head      # the most contended ones now
  holdfast top --json --every 10s | jq -r 'select(.waiters > 5) | .name'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fail(exitUsage, `"holdfast top" takes one pattern, and got %d arguments; quote it, as in 'orders:*', or the shell fills it in`, len(args))
			}
			return noAddress(args...)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				c.query = args[0]
			}
			c.out = cmd.OutOrStdout()
			if cmd.Flags().Changed("rows") && !c.json && !c.once {
				return fail(exitUsage, "--rows is for --json and --once, and a screen has as many as there is room for; leave it out")
			}
			if err := c.check(cmd.InOrStdin()); err != nil {
				return err
			}
			return c.top(cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.Var(&c.every, "every", "how often to look at what is shown")
	f.StringVar(&c.sort, "sort", orders[0].name, "sort by `COLUMN`: "+orderNames())
	f.Float64Var(&c.share, "share", live.DefaultShare*100, "how many `PERCENT` of each server's time it may take, about")
	f.BoolVar(&c.readOnly, "read-only", false, "no key ends a hold")
	f.BoolVar(&c.json, "json", false, "print frames of JSON documents, one a line, and need no terminal")
	f.BoolVar(&c.once, "once", false, "print one frame, and need no terminal")
	f.IntVar(&c.rows, "rows", 20, "with --json and --once: a frame has `N` locks; 0: all")
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(sortCompletions(), cobra.ShellCompDirectiveNoFileComp))
	c.connection.addTo(cmd)
	return cmd
}

func sortCompletions() []string {
	names := make([]string, len(orders))
	for i, o := range orders {
		names[i] = cobra.CompletionWithDesc(o.name, o.about)
	}
	return names
}

func (c *topConfig) check(in io.Reader) error {
	if _, ok := orderNamed(c.sort); !ok {
		return fail(exitUsage, "--sort is %q, which is not a column; use one of %s", c.sort, orderNames())
	}
	switch {
	case !(c.share > 0 && c.share <= 100): // also no number
		return fail(exitUsage, "--share is %v; use a percentage above 0 and up to 100, such as 0.5", c.share)
	case c.rows < 0:
		return fail(exitUsage, "--rows is %d; use a number of locks, or 0 for all", c.rows)
	case c.json, c.once:
		return nil
	case !terminal(in) || terminalWidth(c.out) == 0:
		return fail(exitUsage, "there is no terminal to show it on; use --json for a frame of JSON documents every %v, or --once for one frame", c.every.Duration)
	case os.Getenv("TERM") == "dumb":
		return fail(exitUsage, "TERM is dumb, and this terminal cannot be drawn on; set TERM, or use --once or --json")
	}
	return nil
}

func (c *topConfig) top(stderr io.Writer) error {
	ctx, stop := untilSignal()
	defer stop()
	clients, err := c.all()
	if err != nil {
		return err
	}
	defer closeAll(clients)
	defer closeAtSignal(ctx, clients)()
	pic := (*live.Picture)(nil)
	if err = c.reach(ctx, clients); err == nil {
		pic, err = c.picture(ctx, clients)
	}
	if err == nil {
		if note := c.note(); note != "" && (c.once || c.json) { // a screen has a line for it
			warn(stderr, "%s", note)
		}
		for _, n := range slices.Sorted(maps.Keys(c.down)) {
			if c.once || c.json { // likewise
				warn(stderr, "%v", c.down[n])
			}
		}
		switch {
		case c.once:
			err = c.frame(ctx, pic, stderr)
		case c.json:
			err = c.frames(ctx, pic)
		default:
			err = c.screen(ctx, pic)
		}
	}
	var sig signalled
	if errors.As(context.Cause(ctx), &sig) {
		return nil // it is one of the ways in which this command ends
	}
	return c.explain(err)
}

// note is what is to be known of the servers before all else.
func (c *topConfig) note() string {
	switch {
	case len(c.replicas) > 0:
		return onReplica
	case c.node:
		return onNode
	}
	return ""
}

// picture is one of all servers, each of which shows a lock: what one refuses is known before a screen
// is drawn.
func (c *topConfig) picture(ctx context.Context, clients []redis.UniversalClient) (*live.Picture, error) {
	for n, rdb := range clients { // before the picture adds its hooks
		if c.notes(ctx, n, rdb); c.isDown(n) {
			continue
		}
		if inspect.IsReplica(ctx, rdb) {
			if c.replicas == nil {
				c.replicas = make(map[int]bool)
			}
			c.replicas[n] = true
		}
		c.node = c.node || isNode(ctx, rdb)
	}
	pic, err := live.New(clients, live.Options{Match: c.query, Share: c.share / 100, Every: c.every.Duration})
	if err != nil {
		return nil, failure{exitHoldfast, err}
	}
	for n := range clients {
		if c.isDown(n) {
			continue
		}
		if _, err := pic.Lock(ctx, live.Key{Server: n, Name: "holdfast"}); err != nil && !lua.IsError(err, "MOVED") {
			return nil, err
		}
	}
	return pic, nil
}

// notes asks one of several servers whether it answers, and notes that it does not: the others are shown all the same.
func (c *topConfig) notes(ctx context.Context, n int, rdb redis.UniversalClient) {
	var f failure
	if len(c.addresses) < 2 {
		return
	}
	err := c.at(n).reach(ctx, []redis.UniversalClient{rdb})
	if !errors.As(err, &f) || f.code != exitNoServer { // what else is wrong is said in its turn
		return
	}
	if c.down == nil {
		c.down = make(map[int]error)
	}
	c.down[n] = err
}

func (c *topConfig) isDown(n int) bool { return c.down[n] != nil }

// missing is the end of a frame that lacks what a server has, which has been said.
func (c *topConfig) missing() error {
	if len(c.down) > 0 {
		return exited(exitNoServer)
	}
	return nil
}

// screen shows the picture until the user has seen enough.
func (c *topConfig) screen(ctx context.Context, pic *live.Picture) error {
	ctx, cancel := context.WithCancel(ctx)
	d := newDesk(pic, c.every.Duration)
	m := newTopModel(*c, d)
	f, _ := c.out.(*os.File)
	if w, h, err := term.GetSize(int(f.Fd())); err == nil { //nolint:gosec // a file descriptor fits
		m.width, m.height = w, h
	}
	opts := []tea.ProgramOption{tea.WithContext(ctx), tea.WithOutput(c.out), tea.WithoutSignalHandler(), tea.WithFPS(20)}
	if !m.table.colour {
		opts = append(opts, tea.WithColorProfile(colorprofile.Ascii))
	}
	p := tea.NewProgram(m, opts...)
	var all sync.WaitGroup
	all.Go(func() { d.run(ctx, p.Send) })
	_, err := p.Run()
	cancel()
	all.Wait()
	if err != nil && !errors.Is(err, tea.ErrProgramKilled) {
		return failure{exitHoldfast, fmt.Errorf("draw on the terminal: %w", err)}
	}
	return nil
}
