//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// severalOf are the names of a test's locks and the arguments that take them. Names may have in them what
// parts names elsewhere.
func severalOf(t *testing.T) (names, args []string) {
	names = []string{t.Name() + ":z", t.Name() + ":a, --also b", t.Name() + ":m"}
	return names, []string{"run", "--kind", "multilock", "--wait", "0", "--name", names[0], "--also", names[1], "--also=" + names[2], "--"}
}

// TestRunSeveral: the command runs while all are held, knows each one's token, and all are free
// afterwards.
func TestRunSeveral(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	rdb := srv.Client(t)
	names, args := severalOf(t)
	p := command(t, srv, append(args, "sh", "-c",
		`trap 'exit 0' USR1; printf '%s\n' "$HOLDFAST_NAME" "$HOLDFAST_TOKEN" "$HOLDFAST_NAME_1" "$HOLDFAST_TOKEN_1" `+
			`"$HOLDFAST_NAME_2" "$HOLDFAST_TOKEN_2" "$HOLDFAST_NAME_3" "$HOLDFAST_TOKEN_3" "$HOLDFAST_OWNER"`+endless)...)
	p.prints(t, "ready")
	said := strings.Split(p.stdout.String(), "\n")
	require.Equal(t, names[0], said[0])
	greatest := ""
	for i, name := range names {
		token, err := rdb.Get(t.Context(), keys.For(name).Token).Result()
		require.NoError(t, err)
		require.Equal(t, []string{name, token}, said[2+2*i:4+2*i])
		require.Equal(t, map[string]string{said[8]: "1"}, rdb.HGetAll(t.Context(), name).Val(), "one owner has them all")
		greatest = max(greatest, token) // of the same length
	}
	require.Equal(t, greatest, said[1])
	require.Zero(t, p.told(t, syscall.SIGUSR1), p.stderr.String())
	require.Zero(t, exists(t, rdb, names...))
}

// TestRunSeveralOrNone: somebody has the last one. The command does not run, none is left, and the
// message names that one. The control: without it they are taken.
func TestRunSeveralOrNone(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	names, args := severalOf(t)
	other := command(t, srv, "run", "--name", names[2], "--", "sh", "-c", "trap 'exit 0' USR1"+endless)
	other.prints(t, "ready")
	p := command(t, srv, append(args, "echo", "ran")...)
	require.Equal(t, exitNotHeld, p.end())
	require.Empty(t, p.stdout.String())
	require.Contains(t, p.stderr.String(), `"`+names[2]+`" was not acquired`)
	require.Zero(t, exists(t, srv.Client(t), names[:2]...))
	other.told(t, syscall.SIGUSR1)
	p = command(t, srv, append(args, "echo", "ran")...)
	require.Zero(t, p.end())
	require.Equal(t, "ran\n", p.stdout.String())
}

// TestRunSeveralLost: one of them is taken from the command, which is ended; the others are given back.
func TestRunSeveralLost(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	names, args := severalOf(t)
	args = append([]string{args[0], "--lease", "2s"}, args[1:]...)
	p := command(t, srv, append(args, "sh", "-c", strings.TrimPrefix(endless, "; "))...)
	p.prints(t, "ready")
	require.EqualValues(t, 1, srv.Client(t).Del(t.Context(), names[1]).Val())
	require.Equal(t, exitLost, p.end())
	require.Contains(t, p.stderr.String(), `rlock "`+names[1]+`": lock lost`)
	require.Contains(t, p.stderr.String(), "was lost while the command ran")
	require.Zero(t, exists(t, srv.Client(t), names...))
}
