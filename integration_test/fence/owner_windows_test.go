package fence_test

import (
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// owner: on Windows PostgreSQL would run as a service, which these tests do not start.
type owner struct{}

func (owner) attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func (owner) give(*testing.T, string) {}

func postgresUser(t *testing.T) owner {
	t.Helper()
	redistest.Unavailable(t, "these tests start PostgreSQL on Unix only")
	return owner{}
}
