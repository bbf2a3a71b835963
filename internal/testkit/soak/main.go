// Command soak runs the tests that explore, with new seeds, until its time is over:
//
//	soak -overlay FILE 30m
//
// A test explores if it draws a seed, looks for the level, or says that it is for a soak, itself or through functions of its
// package. Nobody keeps a list of those. Tests run in turn, each in a process of its own, as many at a time as there are cores.
// Each has a line when it fails, with the command that replays it, and its output is kept in bin/soak.
//
// Not promised: that a replay fails again. It has the same seed, and another schedule.
//
// Interrupted or terminated, it ends what it has started, and says what it found until then.
//
// The exit code is 1 if a test failed, and 2 if nothing could be run.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

func main() {
	overlay := flag.String("overlay", "", "the file that internal/testkit/overlay wrote, with the switches of the controls")
	flag.Parse()
	duration, err := time.ParseDuration(flag.Arg(0))
	if err != nil || duration <= 0 || flag.NArg() != 1 {
		fmt.Fprintf(os.Stderr, "soak: %q is no time to explore for: give one such as 30m\n", flag.Arg(0))
		os.Exit(2)
	}
	found, err := soak(*overlay, duration)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	if found > 0 {
		os.Exit(1)
	}
}

// soak explores for a while and returns how many runs failed.
func soak(overlay string, duration time.Duration) (failures int, err error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return 0, err
	}
	logs := filepath.Join(root, "bin", "soak")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return 0, err
	}
	tests, err := explorers(root)
	if err != nil {
		return 0, err
	}
	if len(tests) == 0 {
		return 0, errors.New("no test calls package level; start it in the root of the repository")
	}
	if err := build(tests, logs, overlay); err != nil {
		return 0, err
	}
	fmt.Printf("soak: %d tests explore, for %v\n", len(tests), duration)
	asked, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(asked, duration, errors.New("the soak's time is over"))
	defer cancel()
	s := &soaker{logs: logs, tests: tests, count: make(map[string]int)}
	s.all(ctx)
	s.report()
	return s.failures, nil
}

// soaker hands out the tests in turn, and counts.
type soaker struct {
	logs  string
	tests []test

	mu       sync.Mutex // guards what is below
	next     int
	count    map[string]int // runs that ended, by test
	failures int
}

// all runs tests until ctx ends, as many at a time as there are cores.
func (s *soaker) all(ctx context.Context) {
	var running sync.WaitGroup
	for range runtime.NumCPU() {
		running.Go(func() {
			for ctx.Err() == nil {
				t := s.turn()
				seed := 1 + rand.Uint64N(1e9)
				s.ended(t, t.run(ctx, s.logs, seed), seed)
			}
		})
	}
	running.Wait()
}

// turn returns the test whose turn it is.
func (s *soaker) turn() test {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return s.tests[(s.next-1)%len(s.tests)]
}

// ended counts a run, and prints what it found.
func (s *soaker) ended(t test, r verdict, seed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.stopped:
	case r.failed:
		s.failures++
		fmt.Printf("FOUND %s: %s\n  replay: %s\n  output: %s\n", t, r.why, t.replay(seed), r.log)
		fallthrough
	default:
		s.count[t.String()]++
	}
}

func (s *soaker) report() {
	runs := 0
	for _, t := range s.tests {
		n := s.count[t.String()]
		runs += n
		if n == 0 {
			fmt.Printf("soak: %s had no run that ended; give it more time\n", t)
		}
	}
	fmt.Printf("soak: %d runs of %d tests, %d failed\n", runs, len(s.tests), s.failures)
}

// test is one that explores.
type test struct {
	folder  string // of its package, relative to the root
	name    string
	program string // its package's tests, compiled
}

func (t test) String() string { return t.folder + "." + t.name }

// replay is the command, in the root, that runs the test with a seed.
func (t test) replay(seed uint64) string {
	return fmt.Sprintf(`%s=1 %s=%d go test -race -count=1 -overlay "$(go run ./internal/testkit/overlay)" -run '^%s$' ./%s`,
		level.SoakEnv, level.SeedEnv, seed, t.name, t.folder)
}

// verdict is what came of a run.
type verdict struct {
	failed  bool
	stopped bool   // by the end of the soak
	why     string // the first line of the reason
	log     string // the file with the whole output
}

// build compiles the tests of each folder, with the race detector but for the models: see scripts/test.sh.
func build(tests []test, into, overlay string) error {
	programs := make(map[string]string)
	for i := range tests {
		folder := tests[i].folder
		if programs[folder] == "" {
			programs[folder] = filepath.Join(into, strings.ReplaceAll(folder, "/", "_")+".test")
			args := []string{"test", "-c", "-race", "-o", programs[folder], "-overlay", overlay,
				"-gcflags=github.com/holdfast-go/holdfast/internal/testkit/model/...=-race=false", "./" + folder}
			if out, err := exec.Command("go", args...).CombinedOutput(); err != nil { //nolint:gosec // of our own tree
				return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
			}
		}
		tests[i].program = programs[folder]
	}
	return nil
}

// run runs the test once. If ctx ends first the process is killed, and the servers that it started die with it.
func (t test) run(ctx context.Context, logs string, seed uint64) verdict {
	c := exec.CommandContext(ctx, t.program, "-test.run=^"+t.name+"$", "-test.count=1", "-test.v", "-test.timeout=1h") //nolint:gosec // built here
	c.Dir = t.folder
	c.Env = append(os.Environ(), level.SoakEnv+"=1", fmt.Sprintf("%s=%d", level.SeedEnv, seed))
	c.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	switch {
	case ctx.Err() != nil:
		return verdict{stopped: true}
	case err == nil:
		return verdict{}
	}
	v := verdict{failed: true, why: reason(out.String(), err), log: filepath.Join(logs, fmt.Sprintf("%s_%s-%d.log",
		strings.ReplaceAll(t.folder, "/", "_"), t.name, seed))}
	if err := os.WriteFile(v.log, out.Bytes(), 0o600); err != nil {
		v.log = err.Error()
	}
	return v
}

// reason is the first line of what a test complained about.
func reason(out string, err error) string {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		for _, sign := range []string{"Error:", "panic:", "DATA RACE", "leak:", "violation:"} {
			if strings.Contains(line, sign) {
				return line
			}
		}
	}
	return err.Error()
}

// explores are the functions of which a test calls one that explores, by their packages: those of package level, and those of
// other kits that draw a seed, or look for the level, for the tests that call them.
var explores = map[string][]string{
	testkit + "level":          {"Seed", "Rand", "ForSoak", "Soaking"},
	testkit + "model":          {"Large"},
	testkit + "model/fidelity": {"Like"},
}

const testkit = "github.com/holdfast-go/holdfast/internal/testkit/"

// explorers returns the exploring tests below root: each folder's first, then its second, so a short soak has some of all.
func explorers(root string) ([]test, error) {
	byFolder := make(map[string][]string)
	var folders []string
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); at != root && (name[0] == '.' || name == "testdata" || name == "bin") {
			return filepath.SkipDir
		}
		names, err := exploring(at)
		if len(names) > 0 {
			folder, _ := filepath.Rel(root, at)
			folders = append(folders, filepath.ToSlash(folder))
			byFolder[filepath.ToSlash(folder)] = names
		}
		return err
	})
	var tests []test
	for i, more := 0, true; more; i++ {
		more = false
		for _, folder := range folders {
			if names := byFolder[folder]; i < len(names) {
				tests, more = append(tests, test{folder: folder, name: names[i]}), true
			}
		}
	}
	return tests, err
}

// exploring returns the names of the tests in a folder that call one of [explores], themselves or through functions and methods
// of the folder. Functions are told apart by their names alone, so one too many may be found, and none is missed.
func exploring(folder string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	calls := make(map[string][]string) // the names that a function mentions
	direct := make(map[string]bool)    // functions that call one of those
	var tests []string
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // in the repository
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		known := make(map[string][]string) // such functions, by the names of their packages
		for _, i := range f.Imports {
			imported := strings.Trim(i.Path.Value, `"`)
			known[path.Base(imported)] = explores[imported]
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			name := fn.Name.Name
			if fn.Recv == nil && strings.HasPrefix(name, "Test") && name != "TestMain" && strings.HasSuffix(file, "_test.go") {
				tests = append(tests, name)
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if of, ok := n.X.(*ast.Ident); ok && slices.Contains(known[of.Name], n.Sel.Name) {
						direct[name] = true
					}
				case *ast.Ident:
					calls[name] = append(calls[name], n.Name)
				}
				return true
			})
		}
	}
	return slices.DeleteFunc(tests, func(name string) bool { return !reaches(name, calls, direct, make(map[string]bool)) }), nil
}

// reaches reports whether a function is one of the wanted ones, or mentions one that reaches them.
func reaches(name string, calls map[string][]string, wanted, seen map[string]bool) bool {
	if wanted[name] {
		return true
	}
	if seen[name] {
		return false
	}
	seen[name] = true
	return slices.ContainsFunc(calls[name], func(next string) bool { return reaches(next, calls, wanted, seen) })
}
