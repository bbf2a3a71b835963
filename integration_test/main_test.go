// Package integration_test tests the library as its users have it, on real servers of all versions and topologies. It is a
// module of its own, so that what it needs for that is not in the library's go.mod.
//
// Not here: tests of one package, which stand beside it. Nothing in this module is meant to be
// imported; every file ends in _test.go.
package integration_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/child"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// patience is how long a test waits for what must come, on however busy a machine.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	for env, work := range map[string]func(string) error{chainEnv: handOn, fairEnv: lockFairly, waitersEnv: waitFairly} {
		if job := os.Getenv(env); job != "" {
			if err := work(job); err != nil {
				fmt.Println("error:", err)
				os.Exit(1)
			}
			return
		}
	}
	// More at once than there are cores: the tests that run in parallel mostly wait, for a lease or for an election.
	_ = flag.Set("test.parallel", "8")
	redistest.Main(m)
}

// TestServer proves that the suite runs on the server it was asked to run on, and names it in the log.
func TestServer(t *testing.T) {
	s := redistest.Shared(t)
	bin, _ := redistest.Binary()
	says, err := exec.Command(bin, "--version").Output()
	require.NoError(t, err)
	t.Logf("%s, version %s, Valkey %t", bin, s.Version(), s.IsValkey())
	require.Contains(t, string(says), "v="+s.Version())
	require.Equal(t, strings.HasPrefix(string(says), "Valkey"), s.IsValkey())
}

var newClient, onAllServers = kindtest.NewClient, redistest.EachProgram

// mustLock gets a lock that is free, through whatever is left of a fault.
func mustLock(t *testing.T, m *rlock.Mutex) *holdfast.Hold {
	return kindtest.Lock(t, m, holdfast.Wait(patience))
}

// outermost are the oldest and newest Redis and the newest Valkey, or, if quick, the newest Redis: for what no version changes.
func outermost(t *testing.T) []redistest.Program {
	all := redistest.Programs(t) // sorted, with Valkey at the end
	var some []redistest.Program
	for i, p := range all {
		newest := i == len(all)-1 || !p.Valkey && all[i+1].Valkey
		if newest && !p.Valkey || !testing.Short() && (newest || i == 0) {
			some = append(some, p)
		}
	}
	return some
}

// onOutermost runs a test on the servers of [outermost].
func onOutermost(t *testing.T, test func(t *testing.T, p redistest.Program)) {
	for _, p := range outermost(t) {
		t.Run(p.Name, func(t *testing.T) { test(t, p) })
	}
}

// startProcess starts the test binary as one of the processes of [TestMain].
func startProcess(t *testing.T, env string, job ...any) *child.Process {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env+"="+strings.TrimSpace(fmt.Sprintln(job...)))
	return child.Start(t, cmd)
}
