// Package versions_test has an earlier version of the library and this one share locks: each as a process of
// its own, on one Redis. It is the test of what docs/releasing.md promises of versions that run side by side.
//
// The earlier one is built from the history of this repository. It is the last release, and where there is
// none a commit of before: see earlier.
//
// Faults while both run: a holder is killed, connections are cut, servers are paused, and who is first in a queue dies. Not
// here: random faults, which chaos makes with one version, and fail-overs; versions that are more than one release apart.
package versions_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/child"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// patience is how long a test waits for what must come, on however busy a machine.
const patience = time.Minute

// first is the oldest commit with all kinds of locks whose format is that of today. It counts while there is
// no release. A change of the format before v1 moves it, and says so in the changelog.
const first = "9da6e2160a13074df0a3a27b674294e3c23716e9"

// programs are the worker's, of both versions.
var programs struct {
	old, present string
	missing      error // why there is no old one
}

func TestMain(m *testing.M) {
	// The tests wait most of the time.
	_ = flag.Set("test.parallel", "24")
	redistest.Main(built{m})
}

type built struct{ m *testing.M }

// Run is called by redistest. It builds the workers once, before the tests.
func (b built) Run() int {
	dir, err := os.MkdirTemp("", "versions-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	programs.present, programs.old = filepath.Join(dir, "present"), filepath.Join(dir, "old")
	if out, err := command("", "go", "build", "-o", programs.present, "./worker"); err != nil {
		panic(out)
	}
	programs.missing = buildOld(filepath.Join(dir, "tree"))
	return b.m.Run()
}

// buildOld puts the worker into the tree of the earlier version, and builds it there without go.work.
func buildOld(tree string) error {
	commit, err := earlier()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(tree, "worker"), 0o755); err != nil {
		return err
	}
	archive := filepath.Join(tree, "tree.tar")
	source, err := os.ReadFile("worker/main.go")
	if err != nil {
		return err
	}
	source = bytes.ReplaceAll(source, []byte("rlock.Keep("), []byte("holdfast.Keep(")) // as it was called
	if err := os.WriteFile(filepath.Join(tree, "worker", "main.go"), source, 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"git", "-C", "../..", "archive", "-o", archive, commit},
		{"tar", "-xf", archive, "-C", tree},
		{"go", "-C", tree, "build", "-trimpath", "-o", programs.old, "./worker"},
	} {
		if out, err := command("GOWORK=off", args...); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	fmt.Println("versions: this one beside", commit)
	return nil
}

// earlier returns the commit of the last release, and first where there is none.
func earlier() (string, error) {
	tag, err := command("", "git", "describe", "--tags", "--abbrev=0", "--match=v[0-9]*", "HEAD")
	if tag = strings.TrimSpace(tag); err == nil && tag != "" {
		return tag, nil
	}
	if out, err := command("", "git", "cat-file", "-e", first+"^{commit}"); err != nil {
		return "", errors.New("no release and no commit " + first + " in the history here; `git fetch --unshallow` gets it: " + out)
	}
	return first, nil
}

func command(env string, args ...string) (string, error) {
	c := exec.Command(args[0], args[1:]...)
	c.Env = append(os.Environ(), "GOFLAGS=")
	if env != "" {
		c.Env = append(c.Env, env)
	}
	out, err := c.CombinedOutput()
	return string(out), err
}

// process is a worker.
type process struct {
	*child.Process
	owner string // by which it has, or had, the lock
}

func start(t *testing.T, program string, args ...string) *process {
	return &process{Process: child.Start(t, exec.CommandContext(t.Context(), program, args...))}
}

// held reads that it has the lock, and returns the token.
func (p *process) held() (token uint64) {
	line := p.Says()
	require.NoError(p, kindtest.Err(fmt.Sscanf(line, "held %d %s", &token, &p.owner)), line)
	return token
}

// unlocks has it give the lock back.
func (p *process) unlocks() {
	p.Told("")
	require.Equal(p, "free", p.Says())
}

// lost reads that it has lost the lock, and returns until when it trusted it, in us.
func (p *process) lost() (until uint64) {
	line := p.Says()
	require.NoError(p, kindtest.Err(fmt.Sscanf(line, "lost %d", &until)), line)
	return until
}
