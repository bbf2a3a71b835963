//go:build linux

package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/rlock"
)

// jobEnv makes the test binary a client process: its value is a job.
const jobEnv = "HOLDFAST_CHAOS_CLIENT"

// budget is the clients' Options.RetryBudget. No single fault lasts longer.
const budget = 3 * time.Second

// job is what one client process does.
type job struct {
	work
	Client  int    // its number in the history
	Seed    uint64 // of its choices
	Mode    mode
	Addrs   []string          // to connect to: the server, the Sentinels, or nodes of the cluster
	Proxies map[string]string // the address of each server, and of its proxy
	Shape   shape
}

// defences are those that storms may switch off.
var defences = map[string]*defence.Switch{
	"Deadline": &defence.Deadline, "Detach": &defence.Detach, "LeaseEnd": &defence.LeaseEnd, "Noted": &defence.Noted, "NoRetry": &defence.NoRetry,
	"RepeatedGone": &defence.RepeatedGone, "Stay": &defence.Stay, "ToldEnds": &defence.ToldEnds, "Withdraw": &defence.Withdraw,
}

// asClient makes this process a client, if it was started as one, and is then its whole life.
func asClient() bool {
	text := os.Getenv(jobEnv)
	if text == "" {
		return false
	}
	if err := clientMain(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// now is the clock of all processes of a machine.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // the kernel has this clock
	}
	return ts.Nano()
}

// clientMain is the whole life of a client process. Its history goes to the standard output; commands come from the standard
// input, one a line: "reopen" closes the client and opens another, "stop" and the end of the input end it all.
func clientMain(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	for _, name := range j.Without {
		defences[name].Drop()
	}
	rec := history.NewRecorder(now)
	rec.Stream(os.Stdout)
	stop := make(chan struct{})
	var noting sync.WaitGroup
	noting.Go(func() { noteStalls(rec, j.Client, stop) })
	err := j.sessions(rec)
	close(stop)
	noting.Wait()
	if err != nil {
		return err
	}
	if err := rec.Err(); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	// A refused pool of go-redis notices its end within a second. NewFailoverClusterClient leaves three goroutines for good.
	const goRedis = "github.com/redis/go-redis/v9"
	return goleak.Find(goleak.IgnoreAnyFunction(goRedis+"/internal/pool.(*ConnPool).tryDial"),
		goleak.IgnoreAnyFunction(goRedis+".(*sentinelFailover).listen"),
		goleak.IgnoreAnyFunction(goRedis+".(*channel).initMsgChan.func1"),
		goleak.IgnoreAnyFunction(goRedis+".(*channel).initHealthCheck.func1"))
}

// sessions are the lives of its clients of the library, one after the other.
func (j *job) sessions(rec *history.Recorder) error {
	commands := make(chan string)
	go readCommands(os.Stdin, commands)
	rng := rand.New(rand.NewPCG(j.Seed, uint64(j.Client)))
	for stop := false; !stop; {
		var err error
		if stop, err = j.session(rec, rng, commands); err != nil {
			return err
		}
	}
	for range commands { // until the parent closes it, which ends the goroutine
	}
	return nil
}

func readCommands(in io.Reader, commands chan<- string) {
	defer close(commands)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		commands <- lines.Text()
	}
}

// session is the life of one client of the library.
func (j *job) session(rec *history.Recorder, rng *rand.Rand, commands <-chan string) (stop bool, err error) {
	var ledger workload.Ledger
	cfg, c, shut, err := j.open(rng, &ledger)
	if err != nil {
		return true, err
	}
	cfg.Name = func(rng *rand.Rand) string {
		n := rng.IntN(j.Names)
		if j.Keeping > 0 && rng.IntN(4) > 0 { // else the others come too often for it to be kept
			n = j.Client % j.Names
		}
		return nameOf(periodAt(now(), j.Period), n)
	}
	cfg.Think, cfg.Hold, cfg.Wait = 10*time.Millisecond, 5*time.Millisecond, 100*time.Millisecond
	cfg.Lease, cfg.Leases, cfg.Plain = j.Lease, []time.Duration{0, j.Lease / 2}, 4
	cfg.Staying, cfg.Stays = j.Staying, []time.Duration{j.Lease / 4, j.Lease / 2, j.Lease}
	cfg.Keeping, cfg.Keeps = j.Keeping, []time.Duration{5 * time.Millisecond, j.Lease / 4, j.Lease, 3 * j.Lease}
	cfg.Extends, cfg.Patience, cfg.Now = []time.Duration{j.Lease / 2, j.Lease}, 20*time.Second, now
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var group sync.WaitGroup
	for _, a := range j.actors(cfg, c, rec, rng) {
		group.Go(func() { a.Run(ctx) })
	}
	command := <-commands
	closing, done := context.WithTimeout(context.Background(), 20*time.Second)
	defer done()
	if stop = command != "reopen"; stop {
		cancel()
		group.Wait()
		err = shut(closing)
	} else {
		err = shut(closing) // under the actors, which stop when they see it
		group.Wait()
	}
	if err != nil {
		return stop, fmt.Errorf("close: %w", err)
	}
	return stop, ledger.Settle(budget)
}

// open makes a client of the library, and returns how actors get their locks of it, and how to
// close it. There is not one client where several masters make a quorum. The ledger hears of all.
func (j *job) open(rng *rand.Rand, ledger *workload.Ledger) (cfg workload.Config, c *holdfast.Client,
	shut func(context.Context) error, err error) {
	opts := &holdfast.Options{Lease: j.Lease, RetryBudget: budget, Linger: 300 * time.Millisecond, Observer: ledger.Observer()}
	if j.Mode == quorum {
		cfg, shut, err = j.openQuorum(opts, rng)
		cfg.Lock = ledger.Count(cfg.Lock)
		return cfg, nil, shut, err
	}
	rdb := j.connectTo(j.Addrs[0])
	rdb.AddHook(j.nerves(rng).Hook())
	rdb.AddHook(new(workload.Places))
	if !j.Fair {
		cfg.Granted = &workload.Granted{}
		rdb.AddHook(cfg.Granted.Hook())
	}
	c, err = holdfast.New(rdb, opts)
	plain := func(name string) workload.Locker { return rlock.New(c, name) }
	fair := func(name string) workload.Locker { return fairlock.New(c, name) }
	cfg.Lock, cfg.Other = plain, fair
	if j.Fair {
		cfg.Lock, cfg.Other = fair, plain
	}
	if len(j.Kinds) == 0 {
		cfg.Lock, cfg.Other = ledger.Count(cfg.Lock), ledger.Count(cfg.Other)
	}
	return cfg, c, func(ctx context.Context) error { return errors.Join(workload.Closed(c.Close(ctx)), rdb.Close()) }, err
}

// patience is for how long clients wait for an answer.
const patience = 300 * time.Millisecond

// dial connects through the proxy of a server.
func (j *job) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if proxy, ok := j.Proxies[addr]; ok {
		addr = proxy
	}
	return (&net.Dialer{Timeout: patience}).DialContext(ctx, network, addr)
}

// process is one client process as its parent sees it. One goroutine at a time uses it.
type process struct {
	number  int
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stderr  bytes.Buffer  // read only after ended
	ended   chan struct{} // closed when it is gone and its history is read
	ops     []history.Op
	err     error // of the history
	exit    error
	stopped int64 // since when it has been paused, 0: it runs
	killed  bool

	faults, pauses []history.Window // its own
}

// launch starts a client process.
func launch(j job) (*process, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	p := &process{number: j.Client, cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), jobEnv+"="+string(text))
	p.cmd.Stderr = &p.stderr
	// a paused one would not see the end of its input
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		p.ops, p.err = history.Read(out)
		p.exit = p.cmd.Wait()
	}()
	return p, nil
}

// command sends a line. A process that is gone does not matter here; its end is looked at later.
func (p *process) command(line string) { _, _ = fmt.Fprintln(p.stdin, line) }

func (p *process) pause() {
	p.stopped = now()
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
}

func (p *process) resume() {
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	w := history.Window{From: p.stopped, To: now()}
	p.pauses, p.faults = append(p.pauses, w), append(p.faults, w)
	p.stopped = 0
}

// hesitation is how late a process may run what it should have run, on a busy machine.
const hesitation = 1500 * time.Millisecond

// kill ends the process at once and adds that to its history. What it had not yet noticed when it
// died, such as the end of its trust, it may have been about to notice; so its crash began earlier,
// by the time that it may have needed for that, in which it was not paused.
func (p *process) kill() {
	p.killed = true
	at := now()
	if p.stopped != 0 {
		at = p.stopped
	}
	at = p.since(hesitation, at)
	_ = p.cmd.Process.Kill()
	<-p.ended
	p.ops = append(p.ops, history.Op{Client: p.number, Kind: history.Crash, Call: at, Return: now(), Result: history.OK})
}

// stop has the process unlock and close everything, and waits for it. What it did wrong in that is a violation.
func (p *process) stop() (found []history.Violation) {
	if p.killed {
		return nil
	}
	p.command("stop")
	_ = p.stdin.Close()
	select {
	case <-p.ended:
	case <-time.After(40 * time.Second):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // it prints its goroutines
		<-p.ended
		return []history.Violation{{Check: "end", Text: fmt.Sprintf("client %d did not end\n%s", p.number, p.tail())}}
	}
	if p.exit != nil || p.err != nil {
		found = append(found, history.Violation{Check: "end", Text: fmt.Sprintf("client %d: %v, history: %v\n%s",
			p.number, p.exit, p.err, p.tail())})
	}
	return found
}

func (p *process) tail() string {
	b := p.stderr.Bytes()
	return string(b[:min(len(b), 6000)])
}
