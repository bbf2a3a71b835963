package memory_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/memory"
)

func TestMain(m *testing.M) { leak.Main(m) }

// client is closed at the end of the test.
func client(t *testing.T, opts *holdfast.Options) *holdfast.Client {
	c, err := memory.NewClient(opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	return c
}

// flawEnv has the suite run on a server with a flaw.
const flawEnv = "HOLDFAST_MEMORY_FLAW"

// TestKind: what every kind of lock promises, without Redis.
func TestKind(t *testing.T) {
	srv := &memory.Server{Flaw: memory.Flaw(os.Getenv(flawEnv))}
	kindtest.Run(t, kindtest.Kind{
		Name:   "memory",
		Lease:  2 * time.Second,
		Memory: true,
		Client: func(t *testing.T, opts *holdfast.Options) kindtest.Client {
			c := client(t, opts)
			return kindtest.Client{
				ID: c.ID(),
				New: func(name string, opts ...holdfast.Option) holdfast.Locker {
					return memory.New(c, srv, name, opts...)
				},
				State: func(ctx context.Context, name string) (holdfast.State, error) {
					return memory.New(c, srv, name).State(ctx)
				},
				Close: c.Close,
			}
		},
		Waiters: func(_ *testing.T, name string) int { return srv.Waiters(name) },
		Lose:    func(_ *testing.T, name string) { srv.Give(name, "110cc421-94e6-4f2e-9a4b-2f6b5d8a7c11:47", time.Hour) },
		Sent:    func(*testing.T) int64 { return srv.Asked() },
	})
}

// TestSuiteSeesFlaws is the suite's control: it fails on servers that do something wrong.
func TestSuiteSeesFlaws(t *testing.T) {
	for flaw, promise := range map[memory.Flaw]string{
		memory.GrantsTwice: "one client excludes the others",
		memory.OldTokens:   "never are two inside, and tokens grow",
		memory.NoCount:     "the owner re-enters by the context of its hold",
		memory.NoExtension: "Extend lengthens the lease",
		memory.AnyOwner:    "a re-entry finds out that the hold is lost",
		memory.Nameless:    "a refusal says who holds the lock",
	} {
		t.Run(string(flaw), func(t *testing.T) {
			requireBroken(t, "TestKind", promise, string(flaw))
		})
	}
}

// requireBroken runs one test of a suite with a flaw, in a process of its own, beside others, and demands that it fails.
func requireBroken(t *testing.T, suite, promise, flaw string) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+suite+"$/^"+promise+"$")
	cmd.Env = append(os.Environ(), flawEnv+"="+flaw)
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "the suite sees nothing: %s", out)
	require.Contains(t, string(out), "--- FAIL: "+suite+"/")
}
