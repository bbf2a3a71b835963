package redistest

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9/maintnotifications"
)

// What clusters and Sentinels have in common.

func noMaintNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// serverVersion asks a binary for its version without starting a server, empty if it does not say. It is for command
// lines that depend on the version; everything else asks the running server.
func serverVersion(bin string) string {
	out, err := exec.Command(bin, "--version").Output()
	if err != nil {
		return ""
	}
	_, v, _ := strings.Cut(string(out), "v=")
	v, _, _ = strings.Cut(v, " ")
	return v
}

// role is "master", "slave" or, if the server does not answer, empty.
func role(addr string) string {
	info, _ := text(call(addr, "INFO", "replication"))
	return field(info, "role")
}

// awaitReplicas waits until n replicas have all that their primary had written when it was called.
func awaitReplicas(ctx context.Context, tb testing.TB, primary *Server, n int) {
	tb.Helper()
	info, err := text(call(primary.Addr(), "INFO", "replication"))
	if err != nil {
		tb.Fatalf("replicas: %v", err)
	}
	want := field(info, "master_repl_offset")
	if !eventually(patience, func() bool {
		info, _ = text(call(primary.Addr(), "INFO", "replication"))
		done := 0
		for line := range strings.Lines(info) {
			if _, rest, ok := strings.Cut(line, ",offset="); ok {
				if offset, _, _ := strings.Cut(rest, ","); atLeast(offset, want) {
					done++
				}
			}
		}
		return done >= n || ctx.Err() != nil
	}) || ctx.Err() != nil {
		tb.Fatalf("replicas lag behind offset %s:\n%s", want, info)
	}
}

// atLeast compares decimal numbers without sign.
func atLeast(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a >= b }
