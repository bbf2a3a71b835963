package redisson

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestNothingPassesWithoutJava runs all tests of this package with a worker that does nothing and says that all went well, and
// with one that says no to everything. Each must fail, with each of its subtests; those that are for a soak are tried in one.
func TestNothingPassesWithoutJava(t *testing.T) {
	t.Parallel()
	if os.Getenv(IdleEnv) != "" {
		t.Fatal("it would start itself")
	}
	if _, ok := redistest.Binary(); !ok {
		redistest.Unavailable(t, "no server")
	}
	for _, says := range []string{"yes", "no"} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			results := idleRun(t, says)
			failed := 0
			for name, result := range results {
				if leaf(name, results) && (result != "SKIP" || level.Soaking()) {
					require.Equal(t, "FAIL", result, "%s does not need Java", name)
					failed++
				}
			}
			require.Positive(t, failed)
			t.Logf("proof: redisson: %d of %d tests fail with a worker that says %s to everything", failed, failed, says)
		})
	}
}

var resultLine = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+) \(`)

// idleRun runs the tests in a process of their own, with the local server, and returns how each ended.
func idleRun(t *testing.T, says string) map[string]string {
	t.Helper()
	this, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.Command(os.Args[0], "-test.run=^Test", "-test.skip=^"+this+"$", "-test.v", "-test.timeout=8m")
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name != redistest.ServersEnv && name != topology.DockerEnv && name != "CI" {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, IdleEnv+"="+says)
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	results := map[string]string{}
	for _, m := range resultLine.FindAllStringSubmatch(string(out), -1) {
		results[m[2]] = m[1]
	}
	if strings.Contains(string(out), "\npanic: ") || len(results) == 0 {
		t.Fatalf("the tests have not run to their end:\n%s", out[max(0, len(out)-5000):])
	}
	return results
}

// leaf reports whether a test has no subtests.
func leaf(name string, results map[string]string) bool {
	under := func(other string) bool { return strings.HasPrefix(other, name+"/") }
	return !slices.ContainsFunc(slices.Collect(maps.Keys(results)), under)
}

func TestMain(m *testing.M) {
	if Idle() || dies() {
		return
	}
	_ = flag.Set("test.parallel", "12") // they mostly wait
	redistest.Main(withWorker{m})
}

// withWorker stops the shared worker after the tests.
type withWorker struct{ m *testing.M }

// Run is called by redistest.Main.
func (w withWorker) Run() int {
	defer StopShared()
	return w.m.Run()
}
