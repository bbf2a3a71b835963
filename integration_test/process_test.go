package integration_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

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
	// More at once than there are cores: the tests that run in parallel mostly wait, for a lease or
	// for an election.
	_ = flag.Set("test.parallel", "8")
	redistest.Main(m)
}

// startProcess starts the test binary as one of the processes of [TestMain], killed at the end of the test if it still
// runs. in is what it reads, and lines are what it prints.
func startProcess(t *testing.T, env string, job ...any) (cmd *exec.Cmd, in io.Writer, lines *bufio.Scanner) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env+"="+strings.TrimSpace(fmt.Sprintln(job...)))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, in, bufio.NewScanner(out)
}
