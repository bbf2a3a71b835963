package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// setUp is how long workers may take to be ready, a Java one on a busy machine included.
	setUp = 60 * time.Second
	// tearDown is how long after its window a worker may take to say what it counted.
	tearDown = 20 * time.Second
)

// sample is what one contender did in one scenario and round.
type sample struct {
	Scenario  string             `json:"scenario"`
	Contender string             `json:"contender"`
	Group     group              `json:"group"`
	Round     int                `json:"round"` // from 1
	Metrics   map[string]float64 `json:"metrics"`
	Safety    safety             `json:"safety"`
	// Lost is how many entries holders wrote that others, inside with them, overwrote.
	Lost   int64  `json:"lost"`
	Errors int64  `json:"errors"`
	Error  string `json:"error,omitempty"` // the first, or why nothing was measured
}

// unsafe counts what no lock may do.
func (s sample) unsafe() int64 { return s.Safety.Overlaps + s.Safety.Disorder + max(s.Lost, 0) }

// bad says that it must not be so for a lock of Holdfast.
func (s sample) bad() bool { return s.unsafe() > 0 || s.Errors > 0 || s.Error != "" }

// bench is one run: the servers that it uses and how workers are started.
type bench struct {
	config
	rdb      *redis.Client // for statistics
	addr     string
	masters  []string // of the scenarios of a quorum; empty: there are none
	dsn      string   // of PostgreSQL; empty: there is none
	etcd     string   // URL; empty: there is none
	dir      string   // for pages
	worker   []string
	redisson []string // command of the Java worker; empty: there is none
}

// command is how a worker of a contender is started.
func (b *bench) command(c contender) []string {
	if c.open == nil {
		return append(b.redisson, c.name)
	}
	return b.worker
}

// warmUp is how long contenders run before they are measured. Java compiles what is hot meanwhile.
func (b *bench) warmUp(c contender) time.Duration {
	if c.open == nil {
		return b.JavaWarmUp
	}
	return b.WarmUp
}

// measure does a scenario once. An error of the contender is part of the sample; the error returned
// is that of a cancelled run.
func (b *bench) measure(ctx context.Context, s scenario, c contender, round int) (sample, error) {
	name := fmt.Sprintf("bench:%s:%s:%s:%d", b.run, s.name, c.name, round)
	do := s.measure
	if do == nil {
		do = measurePairs
	}
	result, err := do(ctx, b, s, c, name)
	if ctx.Err() != nil {
		return result, context.Cause(ctx)
	}
	if err != nil {
		result.Error = err.Error()
	}
	result.Scenario, result.Contender, result.Group, result.Round = s.name, c.name, c.group, round
	return result, nil
}

func (b *bench) job(s scenario, c contender, name, task, page string) job {
	j := job{
		Task: task, Contender: c.name, Addr: b.addr, DSN: b.dsn, Etcd: b.etcd, Page: page, Name: name,
		Each: s.each && c.kind == aLock, Clients: max(s.clients, 1), Goroutines: max(s.goroutines, 1), Section: s.section, Lease: s.lease,
	}
	switch c.kind {
	case aReadWrite:
		j.Readers, j.Writers, j.Pause = true, s.writers, s.pause
	case aSemaphore:
		j.Permits = s.permits
	case aLatch:
		j.Laps, j.WarmLaps = s.laps, s.warmLaps
	}
	if s.quorum {
		j.Addr, j.Masters = b.masters[0], b.masters
	}
	return j
}

// statistics is a client for each server that a scenario uses.
func (b *bench) statistics(s scenario) (rdbs []*redis.Client, done func()) {
	if !s.quorum {
		return []*redis.Client{b.rdb}, func() {}
	}
	for _, addr := range b.masters {
		rdbs = append(rdbs, redis.NewClient(&redis.Options{Addr: addr}))
	}
	return rdbs, func() {
		for _, rdb := range rdbs {
			_ = rdb.Close()
		}
	}
}

// newPage makes a page that remove takes away again.
func (b *bench) newPage() (p *page, path string, remove func(), err error) {
	f, err := os.CreateTemp(b.dir, "page-")
	if err != nil {
		return nil, "", nil, err
	}
	path = f.Name()
	if err := f.Close(); err != nil {
		return nil, "", nil, err
	}
	if p, err = createPage(path); err != nil {
		return nil, "", nil, err
	}
	return p, filepath.Clean(path), func() { _, _ = p.close(), os.Remove(path) }, nil
}

// team is the workers of one measurement.
type team []*process

// assemble starts workers and waits until all are ready.
func assemble(ctx context.Context, command []string, jobs ...job) (team, error) {
	commands := make([][]string, len(jobs))
	for i := range commands {
		commands[i] = command
	}
	return assembleEach(ctx, commands, jobs)
}

// assembleEach is assemble with a command for each job.
func assembleEach(ctx context.Context, commands [][]string, jobs []job) (team, error) {
	ctx, cancel := context.WithTimeout(ctx, setUp)
	defer cancel()
	var t team
	for i, j := range jobs {
		p, err := start(commands[i], nil, j)
		if err != nil {
			t.stop()
			return nil, err
		}
		t = append(t, p)
	}
	if err := t.ready(ctx); err != nil {
		t.stop()
		return nil, err
	}
	return t, nil
}

func (t team) ready(ctx context.Context) error { return t.heard(ctx, eventReady) }

func (t team) progress(ctx context.Context) error { return t.heard(ctx, eventProgress) }

// heard waits until all have said something.
func (t team) heard(ctx context.Context, event string) error {
	for _, p := range t {
		if _, err := p.await(ctx, event); err != nil {
			return err
		}
	}
	return nil
}

func (t team) stop() {
	for _, p := range t {
		p.stop()
	}
}

func (t team) tell(w window) error {
	for _, p := range t {
		if err := p.tell(w); err != nil {
			return err
		}
	}
	return nil
}

// results waits for what all counted.
func (t team) results(ctx context.Context) ([]*result, error) {
	var all []*result
	for _, p := range t {
		m, err := p.await(ctx, eventResult)
		if err != nil {
			return nil, err
		}
		if m.Result == nil {
			return nil, errors.New("a worker said nothing in its result")
		}
		all = append(all, m.Result)
	}
	return all, nil
}

// measurePairs lets all goroutines of all processes lock and unlock for a while.
func measurePairs(ctx context.Context, b *bench, s scenario, c contender, name string) (out sample, err error) {
	page, path, remove, err := b.newPage()
	if err != nil {
		return out, err
	}
	defer remove()
	var addr string
	if s.far > 0 {
		d, err := newDistance(b.addr, s.far/2)
		if err != nil {
			return out, err
		}
		defer d.close()
		addr = d.addr()
	}
	jobs := make([]job, s.processes)
	for i := range jobs {
		jobs[i] = b.job(s, c, name, taskPairs, path)
		jobs[i].Process = i
		if s.far > 0 {
			jobs[i].Addr = addr
		}
		if s.turns {
			jobs[i].Turns = s.processes
		}
	}
	t, err := b.fleet(ctx, c, jobs)
	if err != nil {
		return out, err
	}
	defer t.stop()
	rdbs, done := b.statistics(s)
	defer done()
	before, err := workRun(ctx, rdbs...)
	if err != nil {
		return out, err
	}
	from := now() + int64(b.warmUp(c))
	if err := t.tell(window{from, from + int64(b.Time)}); err != nil {
		return out, err
	}
	limit, cancel := context.WithTimeout(ctx, b.warmUp(c)+b.Time+tearDown)
	defer cancel()
	results, err := t.results(limit)
	if err != nil {
		return out, err
	}
	after, err := workRun(ctx, rdbs...)
	if err != nil {
		return out, err
	}
	if out.Metrics, err = summarise(results, b.Time.Seconds(), s.clients); err != nil {
		return out, err
	}
	if c.kind == aFleet {
		if err := firstSide(out.Metrics, results, b.Time.Seconds(), s.clients); err != nil {
			return out, err
		}
	}
	out.check(page, results)
	entries := out.Lost + out.Safety.Entries
	switch {
	case entries == 0:
		return out, errors.New("nobody got the lock; " + out.Error)
	case c.group != another:
		out.Metrics[metricCommands] = (after.commands - before.commands) / float64(entries)
		out.Metrics[metricScripts] = (after.scripts - before.scripts) / float64(entries)
		out.Metrics[metricServer] = (after.seconds - before.seconds) / float64(entries)
	}
	if gap, ok := out.Metrics[metricGapMean]; ok && s.far > 0 {
		out.Metrics[metricTrips] = gap / s.far.Seconds()
	}
	if cpu := cpuOf(results); cpu > 0 {
		out.Metrics[metricCPU] = seconds(cpu) / float64(entries)
	}
	return out, nil
}

// check takes over what the page saw and which errors there were.
func (s *sample) check(p *page, results []*result) {
	s.Safety = p.safety()
	s.Lost = -s.Safety.Entries
	for _, r := range results {
		s.Lost += r.Entries
		s.Errors += r.Errors
		if s.Error == "" {
			s.Error = r.Error
		}
	}
}
