package notify

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

// sink notes what it is told, after an action of the test's.
type sink struct {
	act  func(msg string)
	said strings.Builder
}

func (s *sink) Write(line []byte) (int, error) {
	if s.act != nil {
		s.act(string(line))
	}
	return s.said.Write(line)
}

func (s *sink) logger(group *sync.WaitGroup) *slog.Logger {
	plain := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	return NewLogger(slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{ReplaceAttr: plain})).With("a", 1), group.Go)
}

// TestRecords: they arrive in order and whole, with the attributes of both loggers; what the handler does not want does not.
func TestRecords(t *testing.T) {
	var s sink
	var group sync.WaitGroup
	log := s.logger(&group)
	log.Info("one", "x", 1)
	log.Debug("not wanted")
	log.With("b", 2).WithGroup("g").Warn("two", "x", 2)
	group.Wait()
	require.Equal(t, "level=INFO msg=one a=1 x=1\nlevel=WARN msg=two a=1 b=2 g.x=2\n", s.said.String())
}

// TestBlocked: a handler that blocks keeps nobody waiting, and takes no more memory than so many records. How many were dropped
// is told when it goes on. Control: without the queue the caller waits.
func TestBlocked(t *testing.T) {
	blocked, release := make(chan bool), make(chan bool)
	var once sync.Once
	s := sink{act: func(string) {
		once.Do(func() {
			close(blocked)
			<-release
		})
	}}
	var group sync.WaitGroup
	log := s.logger(&group)
	log.Info("first")
	<-blocked
	for range LogRoom + 7 {
		log.Info("next")
	}
	close(release)
	group.Wait()
	lines := strings.Split(strings.TrimSpace(s.said.String()), "\n")
	require.Len(t, lines, 1+LogRoom)
	require.Equal(t, "level=INFO msg=next a=1 dropped=7", lines[1])
	require.NotContains(t, strings.Join(lines[2:], " "), Dropped)

	defer defence.AsyncLog.Without(t)()
	here := goroutine()
	s.act = func(string) { require.Equal(t, here, goroutine(), "control") }
	log.Info("in the way of who logs")
}

// goroutine is the name of the goroutine that calls it.
func goroutine() string {
	buf := make([]byte, 64)
	name, _, _ := strings.Cut(string(buf[:runtime.Stack(buf, false)]), "[")
	return name
}

// TestNoGoroutine: there is one while there is something to log, and then none.
func TestNoGoroutine(t *testing.T) {
	var s sink
	started := 0
	var f func()
	log := NewLogger(slog.New(slog.NewTextHandler(&s, nil)), func(run func()) { started, f = started+1, run })
	require.Zero(t, started)
	log.InfoContext(context.Background(), "one")
	log.Info("two")
	require.Equal(t, 1, started)
	f()
	log.Info("three")
	require.Equal(t, 2, started)
	f()
	require.Equal(t, 3, strings.Count(s.said.String(), "\n"))
}

func TestMain(m *testing.M) { leak.Main(m) }

// TestRooms: what has more room is taken while the rest is dropped, and how many were dropped is told.
func TestRooms(t *testing.T) {
	var group sync.WaitGroup
	var got []string
	blocked, release := make(chan bool), make(chan bool)
	q := newQueue(group.Go, func(v string, dropped int) {
		if v == "first" {
			close(blocked)
			<-release
		}
		got = append(got, fmt.Sprint(v, dropped))
	})
	q.put("first", 1)
	<-blocked
	for range 3 {
		q.put("small", 1)
	}
	q.put("large", 2)
	q.put("large", 2)
	close(release)
	group.Wait()
	require.Equal(t, []string{"first0", "small3", "large0"}, got)
}

// TestBroken: a function that panics or ends its goroutine counts as one that was not told.
func TestBroken(t *testing.T) {
	var group sync.WaitGroup
	var got []string
	q := newQueue(group.Go, func(v string, dropped int) {
		switch v {
		case "panics":
			panic(v)
		case "exits":
			runtime.Goexit()
		}
		got = append(got, fmt.Sprint(v, dropped))
	})
	for _, v := range []string{"panics", "exits", "good", "good"} {
		q.put(v, 10)
	}
	group.Wait()
	require.Equal(t, []string{"good2", "good0"}, got)
}

// TestDefaultLogger: without a logger, warnings and errors go to that of the program as it was when NewLogger was called.
func TestDefaultLogger(t *testing.T) {
	program := slog.Default()
	defer slog.SetDefault(program)
	var group sync.WaitGroup
	var said, later sink
	plain := &slog.HandlerOptions{Level: slog.LevelDebug}
	slog.SetDefault(slog.New(slog.NewTextHandler(&said, plain)))
	l := NewLogger(nil, group.Go)
	slog.SetDefault(slog.New(slog.NewTextHandler(&later, plain)))
	l.Debug("debug")
	l.Info("info")
	l.With("a", 1).Info("info")
	l.WithGroup("g").Warn("warned", "b", 2)
	l.Error("failed")
	group.Wait()
	require.Regexp(t, "^time=.* level=WARN msg=warned g.b=2\ntime=.* level=ERROR msg=failed\n$", said.said.String())
	require.Empty(t, later.said.String())

	// A default logger that wants errors only gets these.
	said.said.Reset()
	slog.SetDefault(slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelError})))
	l = NewLogger(nil, group.Go)
	l.Warn("warned")
	l.Error("failed")
	group.Wait()
	require.Regexp(t, "^time=.* level=ERROR msg=failed\n$", said.said.String())
}

// TestSilentLogger: a logger that discards everything gets no records, and no goroutine.
func TestSilentLogger(t *testing.T) {
	silent := slog.New(slog.DiscardHandler)
	none := func(func()) { t.Error("a goroutine") }
	NewLogger(silent, none).Error("failed")
	program := slog.Default()
	defer slog.SetDefault(program)
	slog.SetDefault(silent)
	NewLogger(nil, none).Error("failed")
}
