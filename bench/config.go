package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// config is what the flags say.
type config struct {
	Rounds     int           `json:"rounds"`
	Time       time.Duration `json:"time"`
	WarmUp     time.Duration `json:"warmUp"`
	JavaWarmUp time.Duration `json:"javaWarmUp"`
	Waiters    int           `json:"waiters"`
	Held       int           `json:"held"`
	Server     string        `json:"-"` // its address is nobody's business; its version is in the result
	Out        string        `json:"-"`

	scenarios  []scenario
	contenders []contender
	run        string // part of every name, so that runs on one server do not meet
}

// errListed ends a run that was only asked for a list.
var errListed = errors.New("listed")

// parse reads the flags. It prints what -list and -help ask for.
func parse(args []string, out io.Writer) (config, error) {
	c := config{WarmUp: 300 * time.Millisecond, run: strconv.FormatInt(now(), 36)}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.IntVar(&c.Rounds, "rounds", 5, "how often everything is measured; ratios are per round")
	flags.DurationVar(&c.Time, "time", 2*time.Second, "how long one contender is measured in one scenario and round")
	flags.DurationVar(&c.JavaWarmUp, "java-warmup", 3*time.Second, "how long Java runs before it is measured")
	flags.IntVar(&c.Waiters, "waiters", 10_000, "goroutines in scenario waiters")
	flags.IntVar(&c.Held, "held", 100_000, "names in scenario held")
	flags.StringVar(&c.Server, "server", "", "`address` of a Redis or Valkey server (default: starts a redis-server from the PATH)")
	flags.StringVar(&c.Out, "out", "", "`directory` for tables, data and plots (default: bench-out, in the current directory)")
	scenarioList := flags.String("scenario", "", "`names` with commas (default: all)")
	contenderList := flags.String("contender", "", "`names` with commas (default: all)")
	list := flags.Bool("list", false, "show scenarios and contenders")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if *list {
		printList(out)
		return c, errListed
	}
	if flags.NArg() > 0 {
		return c, fmt.Errorf("unexpected %q; -help shows the flags", flags.Arg(0))
	}
	if c.Rounds < 1 || c.Time <= 0 || c.Waiters < 1 || c.Held < 1 {
		return c, errors.New("-rounds, -time, -waiters and -held must be positive")
	}
	var err error
	if c.scenarios, err = choose("scenario", *scenarioList, scenarios,
		func(s scenario) string { return s.name }); err != nil {
		return c, err
	}
	if c.contenders, err = choose("contender", *contenderList, contenders,
		func(c contender) string { return c.name }); err != nil {
		return c, err
	}
	if c.Out == "" {
		c.Out = "bench-out"
	}
	return c, os.MkdirAll(c.Out, 0o755)
}

func printList(out io.Writer) {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"scenario", ""})
	for _, s := range scenarios {
		t.AppendRow(table.Row{s.name, s.about})
	}
	fmt.Fprintln(out, t.Render())
	t = table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"contender", ""})
	for _, c := range contenders {
		t.AppendRow(table.Row{c.name, c.group})
	}
	fmt.Fprintln(out, t.Render())
}
