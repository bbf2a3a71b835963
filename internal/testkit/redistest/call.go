package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// call sends one command on a connection of its own and returns the reply: string, int64, []any or
// nil.
//
// It is not a go-redis client because such a client says HELLO and more on each connection, which
// would stand in the command counts that tests look at.
func call(addr string, args ...string) (any, error) { return callWithin(time.Second, addr, args...) }

// callWithin is call with a limit of its own.
func callWithin(limit time.Duration, addr string, args ...string) (any, error) {
	conn, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return nil, err
	}
	return readReply(bufio.NewReader(conn))
}

// readReply reads one RESP2 reply.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return nil, errors.New("empty line in reply")
	}
	switch kind, rest := line[0], line[1:]; kind {
	case '+':
		return rest, nil
	case '-':
		return nil, errors.New(rest)
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case '$', '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return nil, err
		}
		if kind == '$' {
			b := make([]byte, n+2)
			_, err := io.ReadFull(r, b)
			return string(b[:n]), err
		}
		list := make([]any, n)
		for i := range list {
			if list[i], err = readReply(r); err != nil {
				return nil, err
			}
		}
		return list, nil
	default:
		return nil, fmt.Errorf("unknown reply %q", line)
	}
}

// text is the reply of a command that answers with a string.
func text(reply any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	s, ok := reply.(string)
	if !ok {
		return "", fmt.Errorf("reply is %T, not a string", reply)
	}
	return s, nil
}

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

// CommandCalls returns how often the server has run each command since it started or since
// ResetStats, by lower-case name, subcommands as "client|id". Commands inside scripts count too.
// The reading itself is not counted in its own answer, and it leaves out what this package sent:
// INFO and CONFIG RESETSTAT.
func (s *Server) CommandCalls(tb testing.TB) map[string]int64 {
	calls, _ := s.commandStats(tb)
	return calls
}

// CommandTime returns for how long the server has worked for each command, by its own account; the
// time of a script is that of what it calls, too.
func (s *Server) CommandTime(tb testing.TB) map[string]time.Duration {
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
