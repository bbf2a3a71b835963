package holdfast_test

import (
	"go/ast"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wallReadings are the methods of a time.Time that read the wall clock in it. All else
// (differences, timers, what is before what) goes by the monotonic one, as long as the time comes
// from time.Now.
var wallReadings = []string{
	"Unix", "UnixMilli", "UnixMicro", "UnixNano", "Format", "AppendFormat", "Date", "Clock", "Nanosecond",
}

// readWall are the places of the library that do, and why nothing of that reaches a server.
var readWall = map[string]string{
	"inspect/lock.go UnixMicro":            "makes a time of a token",
	"inspect/reply.go UnixMicro":           "makes a time of a server's answer",
	"inspect/reply.go UnixMilli":           "likewise",
	"internal/remote/meet.go UnixMicro":    "the time in it is a server's answer",
	"internal/suspend/suspend.go UnixNano": "compares the clock with itself, to notice that the machine slept",
}

// readings are the wall readings in a file.
func readings(f *ast.File) (found []string) {
	ast.Inspect(f, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(wallReadings, sel.Sel.Name) {
				found = append(found, sel.Sel.Name)
			}
		}
		return true
	})
	return found
}

// TestNoWallClockIsSent: nobody has to set the clocks of the machines that lock. No command has a
// client's wall clock in it, because nothing reads it.
func TestNoWallClockIsSent(t *testing.T) {
	places(t, readWall, "reads the wall clock of a client, which may show any time", func(s *source, file string) bool {
		return !s.nested && !strings.HasPrefix(s.dir, "internal/testkit") && s.dir != "scripts" &&
			!strings.HasSuffix(file, "_test.go")
	}, readings)
}

// The control: what a reading is.
func TestWallReadingsAreTold(t *testing.T) {
	for expr, want := range map[string]int{
		"time.Now().UnixMicro()": 1, "f(t.Unix())": 1, "time.Since(t).Microseconds()": 0, "t.Sub(u)": 0,
	} {
		require.Len(t, readings(parsed(t, "var _ = "+expr)), want, expr)
	}
}
