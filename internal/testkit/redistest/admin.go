package redistest

import (
	"strings"
	"testing"
)

// Command sends one command to the server on a connection of its own, as the default user and past
// any proxy, and returns the reply: string, int64, []any or nil. An error fails the test. It is for
// what tests do to a server: CONFIG, ACL SETUSER, CLIENT KILL, FLUSHALL, SCRIPT FLUSH, DEBUG (see
// [Debug]).
func (s *Server) Command(tb testing.TB, args ...string) any {
	tb.Helper()
	reply, err := s.Try(args...)
	if err != nil {
		tb.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return reply
}

// Try is [Server.Command] for commands that may fail.
func (s *Server) Try(args ...string) (any, error) { return callWithin(patience, s.Addr(), args...) }

// Field asks the server for INFO of a section and returns the value of one field, empty if there is
// none.
func (s *Server) Field(tb testing.TB, section, name string) string {
	tb.Helper()
	info, err := text(s.Try("INFO", section))
	if err != nil {
		tb.Fatalf("INFO %s: %v", section, err)
	}
	return InfoField(info, name)
}
