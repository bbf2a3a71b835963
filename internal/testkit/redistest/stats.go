package redistest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// CommandCalls returns how often the server has run each command since it started or since
// ResetStats, by lower-case name, subcommands as "client|id". Commands inside scripts count too.
// The reading itself is not counted in its own answer, and it leaves out what this package sent:
// INFO and CONFIG RESETSTAT.
func (s *Server) CommandCalls(tb testing.TB) map[string]int64 {
	tb.Helper()
	calls, _ := s.commandStats(tb)
	return calls
}

// CommandTime returns for how long the server has worked for each command, by its own account; the
// time of a script is that of what it calls, too.
func (s *Server) CommandTime(tb testing.TB) map[string]time.Duration {
	tb.Helper()
	_, took := s.commandStats(tb)
	return took
}

func (s *Server) commandStats(tb testing.TB) (calls map[string]int64, took map[string]time.Duration) {
	tb.Helper()
	info, err := text(s.Try("INFO", "commandstats"))
	if err != nil {
		tb.Fatalf("commandstats: %v", err)
	}
	calls, took = make(map[string]int64), make(map[string]time.Duration)
	for line := range strings.Lines(info) {
		name, stat, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok || name == "info" || strings.HasPrefix(name, "config") {
			continue
		}
		var n, usec int64
		if _, err := fmt.Sscanf(stat, "%d,usec=%d", &n, &usec); err != nil {
			tb.Fatalf("commandstats: %q: %v", line, err)
		}
		if n > 0 { // 6.0 lists commands that were refused, too
			calls[name], took[name] = n, time.Duration(usec)*time.Microsecond
		}
	}
	return calls, took
}

// ResetStats sets what [Server.CommandCalls] and [Server.CommandTime] return to zero.
func (s *Server) ResetStats(tb testing.TB) {
	tb.Helper()
	if _, err := s.Try("CONFIG", "RESETSTAT"); err != nil {
		tb.Fatalf("resetstat: %v", err)
	}
}
