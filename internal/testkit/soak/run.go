package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

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
