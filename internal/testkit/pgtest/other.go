//go:build !unix

package pgtest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// Start skips the test: sockets of files and users of other names are for Unix.
func Start(tb testing.TB) (dsn string) {
	redistest.Unavailable(tb, "PostgreSQL is started on Unix only")
	return ""
}
