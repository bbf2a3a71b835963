package redisson

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// Patience is how long a test waits for what must come, on however busy a machine.
var Patience = patience()

// IdleEnv names the variable that puts a worker in Java's place that only says its value, "yes" or "no", to everything.
const IdleEnv = "HOLDFAST_IDLE_WORKER"

// idleProcess says to a process that it is such a worker.
const idleProcess = "HOLDFAST_IDLE_WORKER_PROCESS"

// patience is shorter where nobody does anything.
func patience() time.Duration {
	if os.Getenv(IdleEnv) != "" {
		return 1500 * time.Millisecond
	}
	return 30 * time.Second
}

// Worker is a process with clients of Redisson in it. All methods are safe for concurrent use.
type Worker struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer // read when the process has ended
	names  atomic.Int64 // of clients and threads

	mu      sync.Mutex // guards the rest, and keeps lines whole
	in      io.WriteCloser
	last    int
	pending map[int]*Pending
	gone    error // it does not answer any more

	ended chan struct{} // closed when the process is gone and everybody knows
}

// Pending is a command under way.
type Pending struct {
	thread *Thread
	ask    Ask
	// Done is closed when it has been answered, or the process has ended.
	Done chan struct{}

	reply Reply
	err   error
}

// shared is the worker of this test binary.
var shared struct {
	sync.Mutex
	tried  bool
	worker *Worker
	err    error
}

// Shared returns the package's worker, started at the first call and stopped by [StopShared]. To kill or stop one use [Start].
func Shared(tb testing.TB) *Worker {
	shared.Lock()
	defer shared.Unlock()
	if !shared.tried {
		shared.tried = true
		shared.worker, shared.err = start()
	}
	check(tb, shared.err)
	return shared.worker
}

// StopShared ends the shared worker.
func StopShared() {
	shared.Lock()
	defer shared.Unlock()
	if shared.worker != nil {
		shared.worker.Kill()
	}
}

// Start starts a worker for one test, which is killed when that ends.
func Start(tb testing.TB) *Worker {
	booting.Lock()
	defer booting.Unlock()
	w, err := start()
	check(tb, err)
	tb.Cleanup(w.Kill)
	p := w.send(&Thread{}, Ask{Op: "ping", Thread: "main"})
	p.within(tb, 6*Patience)
	return w
}

// booting is held by who starts a worker: one at a time is slow enough.
var booting sync.Mutex

// check skips a test for which there is no worker.
func check(tb testing.TB, err error) {
	if errors.Is(err, errMissing) {
		redistest.Unavailable(tb, "no Redisson: "+err.Error())
	}
	require.NoError(tb, err)
}

func start() (*Worker, error) {
	command, env := []string{os.Args[0]}, []string{idleProcess + "=" + os.Getenv(IdleEnv)}
	if os.Getenv(IdleEnv) == "" {
		var err error
		if command, err = build(); err != nil {
			return nil, err
		}
		env = nil
	}
	w := &Worker{cmd: exec.Command(command[0], command[1:]...), pending: make(map[int]*Pending), ended: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), env...)
	w.cmd.Stderr = &w.stderr
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	w.in = in
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go w.read(out)
	return w, nil
}

// read hands answers to who waits for them, until the process has ended.
func (w *Worker) read(out io.Reader) {
	defer close(w.ended)
	lines := bufio.NewReader(out)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var r Reply
		if err := json.Unmarshal(text, &r); err != nil {
			r = Reply{Class: "no answer", Message: fmt.Sprintf("%q: %v", text, err)}
		}
		w.mu.Lock()
		p := w.pending[r.ID]
		delete(w.pending, r.ID)
		w.mu.Unlock()
		if p != nil {
			p.reply = r
			close(p.Done)
		}
	}
	err := w.cmd.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = fmt.Errorf("the worker has ended: %w\n%s", errors.Join(err, io.EOF), w.stderr.Bytes())
	for id, p := range w.pending {
		p.err = w.gone
		close(p.Done)
		delete(w.pending, id)
	}
}

// send sends a command.
func (w *Worker) send(t *Thread, a Ask) *Pending {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	a.ID = w.last
	p := &Pending{thread: t, ask: a, Done: make(chan struct{})}
	line, err := json.Marshal(a)
	if err == nil {
		err = w.gone
	}
	if err == nil {
		w.pending[a.ID] = p
		_, err = w.in.Write(append(line, '\n'))
	}
	if err != nil {
		delete(w.pending, a.ID)
		p.err = err
		close(p.Done)
	}
	return p
}

// name returns a new name for a client or a thread.
func (w *Worker) name(of string) string { return of + strconv.FormatInt(w.names.Add(1), 10) }

// Kill ends the process at once (SIGKILL), and returns when it is gone.
func (w *Worker) Kill() {
	_ = w.cmd.Process.Kill() // it may have ended
	<-w.ended
}

// Pause stops the process (SIGSTOP); Resume lets it go on.
func (w *Worker) Pause(tb testing.TB) { w.signal(tb, redistest.Halt) }

// Resume is the end of [Worker.Pause].
func (w *Worker) Resume(tb testing.TB) { w.signal(tb, redistest.GoOn) }

func (w *Worker) signal(tb testing.TB, s syscall.Signal) {
	require.NoError(tb, w.cmd.Process.Signal(s))
}

// Ask is one command to a worker, a line of JSON. Durations are sent in milliseconds.
type Ask struct {
	ID     int    `json:"id"`
	Op     string `json:"op"`               // the method of Redisson, or nearly; see Clients.java
	Client string `json:"client,omitempty"` // by the name that it was connected under
	Thread string `json:"thread"`           // who is to do it; a new name is a new thread
	Kind   string `json:"kind,omitempty"`   // lock, fair, fenced, spin, read, write, multi, permits, latch
	Name   string `json:"name,omitempty"`
	// of a multilock its members
	Names []string `json:"names,omitempty"`
	IDs   []string `json:"ids,omitempty"`   // of permits
	N     int      `json:"n,omitempty"`     // of permits, or of count-downs
	Wait  millis   `json:"wait,omitempty"`  // how long to wait, where the method takes that
	Lease millis   `json:"lease,omitempty"` // 0: the watchdog renews it; of permits: they have none

	Settings *Settings `json:"settings,omitempty"`
}

// Settings are those of a RedissonClient; what is zero is Redisson's default.
type Settings struct {
	Mode     string   `json:"mode"`             // single, sentinel, cluster
	Master   string   `json:"master,omitempty"` // the name that the Sentinels have for it
	Addrs    []string `json:"addrs"`
	Watchdog millis   `json:"watchdog,omitempty"` // lockWatchdogTimeout
	FairWait millis   `json:"fairWait,omitempty"` // fairLockWaitTimeout
	Prefix   string   `json:"prefix,omitempty"`   // of a NameMapper
	Sharded  string   `json:"sharded,omitempty"`  // shardedSubscriptionMode, in a cluster
	Timeout  millis   `json:"timeout,omitempty"`  // of an answer, in a client of one server
}

// millis is a duration as Redisson has it.
type millis time.Duration

// MarshalJSON is part of json.Marshaler.
func (m millis) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(m).Milliseconds()) }

// Reply is the answer to an [Ask].
type Reply struct {
	ID      int             `json:"id"`
	Thread  int64           `json:"thread"` // the id of the thread in Java
	Value   json.RawMessage `json:"value,omitempty"`
	Class   string          `json:"class,omitempty"` // of what was thrown
	Message string          `json:"message,omitempty"`
}

// Err is what was thrown, nil if nothing was.
func (r Reply) Err() error {
	if r.Class == "" {
		return nil
	}
	return fmt.Errorf("%s: %s", r.Class[strings.LastIndex(r.Class, ".")+1:], r.Message)
}

// Threw reports whether an exception of this class was thrown, by the last part of its name.
func (r Reply) Threw(class string) bool {
	return r.Class == class || strings.HasSuffix(r.Class, "."+class)
}

// Yes reports whether the method returned, and did not return false.
func (r Reply) Yes() bool { return r.Class == "" && string(r.Value) == "true" }

// Int is the number that was returned, -1 if it was none.
func (r Reply) Int() int64 {
	var n int64
	if r.Class != "" || json.Unmarshal(r.Value, &n) != nil {
		return -1
	}
	return n
}

// Text is the text that was returned, "" if it was none.
func (r Reply) Text() string {
	var s string
	_ = json.Unmarshal(r.Value, &s)
	return s
}

// Texts are the texts that were returned.
func (r Reply) Texts() (all []string) {
	_ = json.Unmarshal(r.Value, &all)
	return all
}

// errMissing says that a program of the machine is not there.
var errMissing = errors.New("not on the PATH; Debian has it in openjdk-17-jdk-headless and maven")

// source is the directory of the worker's source, which is this one.
func source() string {
	_, file, _, _ := runtime.Caller(0) //nolint:dogsled // the file is all that is wanted
	return filepath.Dir(file)
}

// build returns the command of a worker, built if it or its source is new. A second process that wants it meanwhile waits.
func build() ([]string, error) {
	for _, program := range []string{"java", "javac", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%s: %w", program, errMissing)
		}
	}
	dir := source()
	target := filepath.Join(dir, "target")
	// JVMs of tests are many and short: what makes them start fast is worth more than their speed.
	command := []string{"java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-cp", filepath.Join(target, "*"), "holdfast.Worker"}
	want, err := stamp(dir)
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "holdfast-redisson-"+hash([]byte(dir))+".lock"),
		os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := alone(lock); err != nil {
		return nil, err
	}
	built := filepath.Join(target, "built")
	if was, err := os.ReadFile(built); err == nil && string(was) == want {
		return command, nil
	}
	fmt.Fprintln(os.Stderr, "building the worker of Redisson with Maven; the first time it downloads what it needs")
	if err := os.RemoveAll(target); err != nil { // jars of another version would be on the class path
		return nil, err
	}
	mvn := exec.Command("mvn", "-q", "-B", "-Dstyle.color=never", "package")
	mvn.Dir = dir
	if out, err := mvn.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mvn package: %w\n%s", err, firstErrors(string(out)))
	}
	return command, os.WriteFile(built, []byte(want), 0o600)
}

// firstErrors are the lines of Maven's output that say what is wrong; advice follows them.
func firstErrors(out string) string {
	var lines []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "[ERROR]") && len(lines) < 5 {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// stamp changes with the source.
func stamp(dir string) (string, error) {
	var all []byte
	add := func(file string) error {
		text, err := os.ReadFile(file)
		all = append(all, text...)
		return err
	}
	err := filepath.WalkDir(filepath.Join(dir, "src"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		return add(path)
	})
	err = errors.Join(err, add(filepath.Join(dir, "pom.xml")))
	return hash(all), err
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
