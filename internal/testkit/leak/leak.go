// Package leak gives every package of the module the same TestMain: it fails when a test leaves a
// goroutine behind.
//
// It does not look for keys or connections; the tests that make them do that themselves.
package leak

import (
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package and ends the process with their exit code, or with 1 when
// goroutines are left.
func Main(m *testing.M) { goleak.VerifyTestMain(m) }
