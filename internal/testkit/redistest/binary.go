package redistest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// BinaryEnv names the environment variable that chooses the server to test against.
const BinaryEnv = "HOLDFAST_REDIS_SERVER"

// Binary returns the server to start: the value of HOLDFAST_REDIS_SERVER if set (a path, or a name
// on the PATH), else redis-server, else valkey-server. ok is false when there is none; a variable
// that names a missing file is "none" too, never a reason to test against some other server in
// silence.
func Binary() (path string, ok bool) {
	if want := os.Getenv(BinaryEnv); want != "" {
		path, err := exec.LookPath(want)
		return path, err == nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}

// missing says why Binary found nothing and what to do.
func missing() string {
	if want := os.Getenv(BinaryEnv); want != "" {
		return BinaryEnv + "=" + want + " is not an executable"
	}
	return "no redis-server or valkey-server on the PATH; install one (Debian: apt-get install redis-server) or set " +
		BinaryEnv
}

// binary is Binary for a test that cannot go on without.
func binary(tb testing.TB) string {
	tb.Helper()
	path, ok := Binary()
	if !ok {
		Unavailable(tb, missing())
	}
	return path
}

// Unavailable skips a test that lacks something of the machine, loudly, and fails it if CI=true.
func Unavailable(tb testing.TB, why string) {
	tb.Helper()
	why = "REAL SERVER TEST NOT RUN: " + strings.TrimSpace(why)
	if os.Getenv("CI") == "true" {
		tb.Fatal(why)
		return
	}
	tb.Skip(why)
}
