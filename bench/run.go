package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"

	"github.com/redis/go-redis/v9"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// run is the program: it measures, then writes what it found. The code is 1 if a lock of Holdfast
// did what it must not.
func run(ctx context.Context, args []string) (code int, err error) {
	c, err := parse(args, os.Stdout)
	switch {
	case errors.Is(err, errListed), errors.Is(err, flag.ErrHelp):
		return 0, nil
	case err != nil:
		return 2, err
	}
	self, err := os.Executable()
	if err != nil {
		return 2, err
	}
	b := &bench{config: c, worker: []string{self, workerArg}}
	close, absent, err := b.open(ctx)
	if err != nil {
		return 2, err
	}
	defer close()
	samples, broken := b.all(ctx)
	if len(samples) == 0 {
		return 2, broken
	}
	r := report{Config: c, Machine: describe(context.WithoutCancel(ctx), b), Samples: samples, Absent: absent}
	if broken != nil {
		r.Broken = fmt.Sprintf("after %d measurements: %v", len(samples), broken)
	}
	if err := errors.Join(r.write(c, os.Stdout), broken); err != nil {
		return 2, err
	}
	fmt.Printf("written to %s: table.md, results.json, results.csv and a plot per scenario\n", c.Out)
	return r.code(), nil
}

// open starts the servers that the chosen contenders need. absent says which contenders are left
// out, and why.
func (b *bench) open(ctx context.Context) (closeAll func(), absent []string, err error) {
	var closers []func()
	closeAll = func() {
		for i := range closers {
			closers[len(closers)-1-i]()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	if b.dir, err = os.MkdirTemp("", "holdfast-bench-"); err != nil {
		return closeAll, nil, err
	}
	closers = append(closers, func() { _ = os.RemoveAll(b.dir) })
	if b.addr = b.Server; b.addr == "" {
		addr, stop, err := startRedis(ctx, b.dir)
		if err != nil {
			return closeAll, nil, err
		}
		b.addr, closers = addr, append(closers, stop)
	}
	b.rdb = redis.NewClient(&redis.Options{Addr: b.addr})
	closers = append(closers, func() { _ = b.rdb.Close() })
	if err := b.rdb.Ping(ctx).Err(); err != nil {
		return closeAll, nil, fmt.Errorf("no server answers on %s: %w", b.addr, err)
	}
	stops, absent := b.prepare(ctx)
	closers = append(closers, stops...)
	if len(b.contenders) == 0 {
		return closeAll, absent, errors.New("no contender is left for these scenarios: " + fmt.Sprint(absent))
	}
	return closeAll, absent, nil
}

// prepare sets up what is not Redis and Go, and leaves out the contenders for which that is not to
// be had.
func (b *bench) prepare(ctx context.Context) (stops []func(), absent []string) {
	var ready []contender
	tried := map[need]error{} // once for all contenders that need the same
	for _, c := range b.contenders {
		if !slices.ContainsFunc(b.scenarios, func(s scenario) bool { return s.takes(c) }) {
			continue // it has nothing to do, so what it needs is not started
		}
		err, again := tried[c.needs]
		if !again {
			var stop func()
			if stop, err = b.provide(ctx, c.needs); stop != nil {
				stops = append(stops, stop)
			}
			tried[c.needs] = err
		}
		if err != nil {
			absent = append(absent, fmt.Sprintf("%s: %v", c.name, err))
			continue
		}
		ready = append(ready, c)
	}
	b.contenders = ready
	return stops, absent
}

func (b *bench) provide(ctx context.Context, what need) (stop func(), err error) {
	switch what {
	case needJava:
		b.redisson, err = buildRedisson(ctx)
	case needPostgres:
		b.dsn, stop, err = startPostgres(ctx, b.dir)
	case needEtcd:
		b.etcd, stop, err = startEtcd(ctx, b.dir)
	case needMasters:
		b.masters, stop, err = startMasters(ctx, b.dir)
	}
	return stop, err
}

// has says whether a contender takes part in a scenario of this run. Without masters nobody does in
// those of a quorum.
func (b *bench) has(s scenario, c contender) bool {
	return s.takes(c) && (!s.quorum || len(b.masters) > 0)
}

// all measures everything: in each round every scenario, and in each scenario the contenders one
// after the other, in an order that moves on from round to round. So a slow moment of the machine
// falls on one round, and not on one contender.
func (b *bench) all(ctx context.Context) ([]sample, error) {
	total := 0
	for _, s := range b.scenarios {
		for _, c := range b.contenders {
			if b.has(s, c) {
				total += b.Rounds
			}
		}
	}
	bar := progressbar.NewOptions(total, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowCount(),
		progressbar.OptionSetVisibility(watched()),
		progressbar.OptionSetPredictTime(true), progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish())
	var samples []sample
	for round := range b.Rounds {
		for _, s := range b.scenarios {
			for _, c := range rotated(b.contenders, round) {
				if !b.has(s, c) {
					continue
				}
				progress(bar, len(samples)+1, total, fmt.Sprintf("round %d, %s, %s", round+1, s.name, c.name))
				one, err := b.measure(ctx, s, c, round+1)
				if err != nil {
					return samples, err
				}
				samples = append(samples, one)
				_ = bar.Add(1) // a terminal that is gone is no reason to stop
			}
		}
	}
	return samples, bar.Finish()
}

// watched says whether somebody looks; else a bar would fill a log with itself.
func watched() bool { return term.IsTerminal(int(os.Stderr.Fd())) }

// progress says what is measured now: in the bar, or in a line of a log.
func progress(bar *progressbar.ProgressBar, number, total int, what string) {
	if bar.Describe(what); !watched() {
		fmt.Fprintf(os.Stderr, "%d of %d: %s\n", number, total, what)
	}
}
