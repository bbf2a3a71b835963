//go:build unix

package fence_test

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// owner is whom the server runs as, if that is not who runs the tests.
type owner struct{ as *syscall.Credential }

func (o owner) attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Credential: o.as} }

func (o owner) give(t *testing.T, dir string) {
	t.Helper()
	if o.as != nil {
		require.NoError(t, os.Chown(dir, int(o.as.Uid), int(o.as.Gid)))
	}
}

// postgresUser is whom the server runs as: PostgreSQL refuses root.
func postgresUser(t *testing.T) owner {
	t.Helper()
	if os.Getuid() != 0 {
		return owner{}
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		redistest.Unavailable(t, "no user postgres to run PostgreSQL as, which refuses root; its Debian package makes one")
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	require.NoError(t, err)
	return owner{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}
