package redistest

import (
	"context"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9/maintnotifications"
)

// What clusters and Sentinels have in common.

func noMaintNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// addrs are the addresses of servers.
func addrs(servers []*Server) (list []string) {
	for _, s := range servers {
		list = append(list, s.Addr())
	}
	return list
}

// role is "master", "slave" or, if the server does not answer, empty.
func role(addr string) string {
	info, _ := text(call(addr, "INFO", "replication"))
	return InfoField(info, "role")
}

// awaitReplicas waits until the replicas have all that their primary had written when it was
// called. It asks the replicas themselves: what the primary knows of them is up to a second old.
// Sentinel makes a replica of a demoted primary when that has been up for 8 s.
func awaitReplicas(ctx context.Context, tb testing.TB, primary *Server, replicas []*Server) {
	tb.Helper()
	info, err := text(call(primary.Addr(), "INFO", "replication"))
	if err != nil {
		tb.Fatalf("replicas: %v", err)
	}
	want := InfoField(info, "master_repl_offset")
	for _, s := range replicas {
		if !eventually(3*patience, func() bool {
			info, _ = text(call(s.Addr(), "INFO", "replication"))
			follows := InfoField(info, "master_link_status") == "up" &&
				InfoField(info, "master_port") == strconv.Itoa(primary.port)
			return follows && atLeast(InfoField(info, "slave_repl_offset"), want) || ctx.Err() != nil
		}) || ctx.Err() != nil {
			tb.Fatalf("replica %s lags behind offset %s of %s:\n%s", s.Addr(), want, primary.Addr(), info)
		}
	}
}

// atLeast compares decimal numbers without sign.
func atLeast(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a >= b }
