package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/printable"
)

const doctorLong = `Looks for dangers to locks in a server and in the settings of its clients: eviction, restarts and
failovers that forget, what this user may not do, whether scripts and messages work, how far away the
server is, how its clock runs.

Each finding has a level, what it means for locks, and what to do:
  ok        as it should be
  note      worth knowing
  unknown   the server does not tell: a permission is missing, or the service hides it
  warning   a promise is weaker than it could be
  error     locks do not work here, or are lost in normal operation

doctor asks the one server, the master behind Sentinel, each master of a Cluster, or each master of a quorum (several
--redis). It takes a little more than a second. It changes nobody's locks: it locks a name that nobody has, tries
commands on it, and deletes the keys that it made. The server refuses commands that the user may not send, counts them,
and writes them into its ACL log.

With --deadlocks it looks for circles of waits instead: A has x and waits for y, and B has y and waits for x, over any
number of clients. A circle is an error. Clients write to Redis which waits have lasted for LongWait (10 s by default),
and what the waiting callers hold, as far as contexts tell. If doctor sees a circle, it reads again until it is
certain: 5 s or so. That only reads, and needs +scan and what "holdfast inspect" needs.

doctor does not see other clients' settings, replicas, Sentinels, and servers that are masters only after a failover.

Exit codes:
  0      nothing worse than a note
  1      a warning
  2      an error
  3      something is unknown, and nothing that is known is worse than a note
  64     bad flag or argument
  69     Redis did not answer
  125    Redis lets nobody in, for example because it refuses the password
  128+n  ended by signal n

` + redisForms

// doctorConfig is what the flags of "doctor" amount to.
type doctorConfig struct {
	connection
	lease  span
	prefix string
	json   bool
	// deadlocks says to look for those, and for nothing else.
	deadlocks bool
}

func newDoctor() *cobra.Command {
	c := doctorConfig{lease: span{30 * time.Second, 100 * time.Millisecond, "30s"}}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is risky for locks in a server and these settings",
		Long:  doctorLong,
		Example: `  holdfast doctor --redis redis://user:password@db:6379

  # for the locks of a service: its lease, and its user's names
  holdfast doctor --lease 10s --prefix orders: \
    --redis redis://orders:password@db:6379

  # find circles of waits, when locks stay taken
  holdfast doctor --deadlocks --redis redis://db:6379

  # in a pipeline: fails at errors only
  holdfast doctor --json > report.json || [ $? -ne 2 ]`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := keys.OneSlot("--prefix", c.prefix); err != nil {
				return failure{exitUsage, err}
			}
			if c.deadlocks && (cmd.Flags().Changed("lease") || cmd.Flags().Changed("prefix")) {
				return fail(exitUsage, "--deadlocks looks at no lease and no prefix; leave --lease and --prefix out, or --deadlocks")
			}
			return examine(c, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.Var(&c.lease, "lease", "the lease of the locks that are to be safe here")
	f.StringVar(&c.prefix, "prefix", "", "names of locks begin with `PREFIX`, such as orders:, as the user may use no others")
	f.BoolVar(&c.deadlocks, "deadlocks", false, "look only for circles of waits")
	f.BoolVar(&c.json, "json", false, "one JSON document instead of text")
	c.connection.addTo(cmd)
	return cmd
}

// diagnosis is the document of --json. Its fields stay; there may be more.
type diagnosis struct {
	Redis    string           `json:"redis"`
	LeaseMS  int64            `json:"lease_ms,omitempty"`
	Worst    doctor.Level     `json:"worst"`
	Findings []doctor.Finding `json:"findings"`
}

func examine(c doctorConfig, stdout io.Writer) error {
	ctx, stop := untilSignal()
	defer stop()
	clients, err := c.all()
	if err != nil {
		return err
	}
	defer closeAll(clients)
	if err := c.reach(ctx, clients); err != nil {
		return err
	}
	findings, err := findings(ctx, c, clients)
	if err != nil {
		return c.explain(err)
	}
	d := diagnosis{c.String(), c.lease.Milliseconds(), doctor.Worst(findings), findings}
	if c.deadlocks {
		d.LeaseMS = 0 // it does not matter
	}
	if c.json {
		err = printJSON(stdout, d, "  ")
	} else {
		err = d.print(newScreen(stdout))
	}
	if err != nil {
		return failure{exitHoldfast, err}
	}
	if code := doctorCodes[d.Worst]; code != 0 {
		return exited(code)
	}
	return nil
}

func findings(ctx context.Context, c doctorConfig, clients []redis.UniversalClient) ([]doctor.Finding, error) {
	if c.deadlocks {
		return doctor.Deadlocks(ctx, clients, c.flags())
	}
	settings := doctor.Settings{Lease: c.lease.Duration, Prefix: c.prefix}
	if len(clients) == 1 {
		return doctor.Examine(ctx, clients[0], settings)
	}
	return doctor.ExamineMasters(ctx, clients, settings)
}

var doctorCodes = map[doctor.Level]int{
	doctor.Warning: exitWarning, doctor.Error: exitError, doctor.Unknown: exitUnknown,
}

var levelColours = map[doctor.Level]string{
	doctor.OK: green, doctor.Note: dim, doctor.Unknown: yellow, doctor.Warning: yellow, doctor.Error: red,
}

// doctorIndent is where the text of a finding begins, behind its level and its check.
const doctorIndent = 22

// print is for people: a line for what is well, and for the rest what it means and what to do.
func (d *diagnosis) print(s *screen) error {
	width := s.width()
	title := d.Redis
	if d.LeaseMS > 0 {
		title = fmt.Sprintf("%s, for locks with a lease of %v", d.Redis, time.Duration(d.LeaseMS)*time.Millisecond)
	}
	s.title(title)
	fmt.Fprintln(s.out)
	servers := map[string]bool{}
	count := map[doctor.Level]int{}
	helped := map[string][]string{} // the checks of a remedy
	for _, f := range d.Findings {
		if f.Server != "" {
			servers[f.Server] = true
		}
		count[f.Level]++
		helped[f.Remedy] = append(helped[f.Remedy], f.Check)
	}
	var shared []string // what helps several findings is said once, behind them
	for _, f := range d.Findings {
		found := f.Found
		if len(servers) > 1 && f.Server != "" {
			found = f.Server + ": " + found
		}
		lines := indented(found, width)
		fmt.Fprintf(s.out, "%s  %-11s  %s\n", s.paint(levelColours[f.Level], fmt.Sprintf("%-7s", f.Level)), f.Check,
			strings.TrimLeft(lines[0], " "))
		rest := lines[1:]
		if f.Means != "" {
			rest = append(rest, indented("means: "+f.Means, width)...)
		}
		switch {
		case f.Remedy == "":
		case len(helped[f.Remedy]) > 1 && f.Command == "":
			if !slices.Contains(shared, f.Remedy) {
				shared = append(shared, f.Remedy)
			}
		default:
			rest = append(rest, indented("remedy: "+f.Remedy, width)...)
		}
		if f.Command != "" { // on one line, for who pastes it
			rest = append(rest, strings.Repeat(" ", doctorIndent)+f.Command)
		}
		for _, line := range rest {
			fmt.Fprintln(s.out, line)
		}
	}
	for _, remedy := range shared {
		about := slices.Compact(helped[remedy]) // those of several servers stand together
		text := printable.Line("remedy for " + strings.Join(about, ", ") + ": " + remedy)
		fmt.Fprintf(s.out, "\n%s\n", strings.Join(wrap(text, width), "\n"))
	}
	var sum []string
	for level := doctor.Error; level >= doctor.OK; level-- {
		if count[level] > 0 {
			many := "" // of unknown and ok there is none
			if count[level] > 1 && (level == doctor.Error || level == doctor.Warning || level == doctor.Note) {
				many = "s"
			}
			sum = append(sum, fmt.Sprintf("%d %s%s", count[level], level, many))
		}
	}
	_, err := fmt.Fprintf(s.out, "\n%s\n", s.paint(levelColours[d.Worst], strings.Join(sum, ", ")))
	return err
}

func indented(text string, width int) []string {
	return wrap(strings.Repeat(" ", doctorIndent)+printable.Line(text), width)
}
