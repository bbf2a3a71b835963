package redistest

import (
	_ "embed" // the shim's source
	bits "encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
)

//go:embed shim/offclock.c
var offclockSource []byte

// offclock is the compiled shim, made once in the life of the test binary. It is kept in memory and
// written beside each server that needs it, so that there is no file to clean up at the end.
var offclock = sync.OnceValues(func() ([]byte, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("a server's clock can be moved on Linux only")
	}
	dir, err := os.MkdirTemp("", "offclock-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	source, lib := filepath.Join(dir, "offclock.c"), filepath.Join(dir, "offclock.so")
	if err := os.WriteFile(source, offclockSource, 0o600); err != nil {
		return nil, err
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	if out, err := exec.Command(compiler, "-O2", "-shared", "-fPIC", "-o", lib, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("moving a server's clock needs a C compiler: %w\n%s", err, out)
	}
	return os.ReadFile(lib)
})

// clock is what moves the wall clock of one server.
type clock struct {
	lib, file string

	mu     sync.Mutex
	offset time.Duration
}

func newClock(tb testing.TB, dir string) *clock {
	tb.Helper()
	lib, err := offclock()
	if err != nil {
		Unavailable(tb, err.Error())
	}
	c := &clock{lib: filepath.Join(dir, "offclock.so"), file: filepath.Join(dir, "offset")}
	if err := os.WriteFile(c.lib, lib, 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(c.file, make([]byte, 8), 0o600); err != nil {
		tb.Fatal(err)
	}
	return c
}

// env makes a server read the clock.
func (c *clock) env() []string { return []string{"LD_PRELOAD=" + c.lib, "OFFCLOCK_FILE=" + c.file} }

// set writes the offset in place: the server has the file mapped, so it must not be replaced or
// truncated.
func (c *clock) set(offset time.Duration) error {
	f, err := os.OpenFile(c.file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(bits.NativeEndian.AppendUint64(nil, uint64(offset)), 0) //nolint:gosec // two's complement is meant
	return err
}

// MoveClock moves the server's wall clock by d from where it is, forwards or backwards, and returns
// when its TIME shows it. The server must have been started with [Clock], and must answer. The time
// between two moves passes as usual.
func (s *Server) MoveClock(tb testing.TB, d time.Duration) {
	tb.Helper()
	if s.clock == nil {
		tb.Fatal("redistest: MoveClock of a server that was started without Clock")
	}
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	offset := s.clock.offset + d
	if err := s.clock.set(offset); err != nil {
		tb.Fatalf("clock: %v", err)
	}
	s.clock.offset = offset
	slack := min(d.Abs()/4, 20*time.Millisecond) // some versions read the clock once a millisecond or so
	var last string
	if !Within(patience, func() bool {
		before := time.Now()
		now, err := s.time()
		after := time.Now()
		last = fmt.Sprint(now, err)
		now = now.Add(-offset)
		return err == nil && now.After(before.Add(-slack)) && now.Before(after.Add(slack))
	}) {
		tb.Fatalf("clock: the server does not show the new time, but %s", last)
	}
}

// time asks the server for its time.
func (s *Server) time() (time.Time, error) {
	reply, err := s.Try("TIME")
	pair, ok := reply.([]any)
	if err != nil || !ok || len(pair) != 2 {
		return time.Time{}, fmt.Errorf("TIME: %v, %w", reply, err)
	}
	sec, err := strconv.ParseInt(pair[0].(string), 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	usec, err := strconv.ParseInt(pair[1].(string), 10, 64)
	return time.Unix(sec, usec*1000), err
}
