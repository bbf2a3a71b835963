package redistest

import (
	"strconv"
	"strings"
	"testing"
)

// CommandCalls returns how often the server has run each command since it started or since
// ResetStats, by lower-case name, subcommands as "client|id". Commands inside scripts count too.
// The reading itself is not counted in its own answer, and it leaves out what this package sent:
// INFO and CONFIG RESETSTAT.
func (s *Server) CommandCalls(tb testing.TB) map[string]int64 {
	tb.Helper()
	info, err := text(s.Try("INFO", "commandstats"))
	if err != nil {
		tb.Fatalf("commandstats: %v", err)
	}
	calls := make(map[string]int64)
	for line := range strings.Lines(info) {
		name, stat, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok || name == "info" || strings.HasPrefix(name, "config") {
			continue
		}
		n, _, _ := strings.Cut(stat, ",")
		if calls[name], err = strconv.ParseInt(n, 10, 64); err != nil {
			tb.Fatalf("commandstats: %q: %v", line, err)
		}
		if calls[name] == 0 { // 6.0 lists commands that were refused, too
			delete(calls, name)
		}
	}
	return calls
}

// ResetStats sets the counts of [Server.CommandCalls] to zero.
func (s *Server) ResetStats(tb testing.TB) {
	tb.Helper()
	if _, err := s.Try("CONFIG", "RESETSTAT"); err != nil {
		tb.Fatalf("resetstat: %v", err)
	}
}
