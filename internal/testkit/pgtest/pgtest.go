//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/child"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// dirs are where packages put the programs that are not for users, beside the PATH.
const dirs = "/usr/lib/postgresql/*/bin"

// patience is how long a server may take to answer, on however busy a machine.
const patience = time.Minute

// Start makes a database and a server, which ends with the test. The dsn is its owner's, for libpq and pgx. It listens on a
// socket: another could take a port. Tests with a database are not quick.
func Start(tb testing.TB) (dsn string) {
	tb.Helper()
	level.ForAll(tb)
	bin, owner := filepath.Dir(initdb(tb)), postgresUser(tb) // all programs are of one version
	dir, err := os.MkdirTemp("", "pg-")                      // TempDir can be too long a path for a socket
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, os.RemoveAll(dir)) })
	if owner != nil {
		require.NoError(tb, os.Chown(dir, int(owner.Uid), int(owner.Gid)))
	}
	data := filepath.Join(dir, "data")
	program := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: owner}
		child.DieWithParent(cmd.SysProcAttr, syscall.SIGQUIT) // as below
		return cmd
	}
	if out, err := program("initdb", "-D", data, "-A", "trust", "-U", "test", "-E", "UTF8", "--locale=C",
		"--no-sync").CombinedOutput(); err != nil {
		tb.Fatalf("initdb: %v\n%s", err, out)
	}
	serve(tb, program("postgres", "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off"),
		func() bool { return program("pg_isready", "-q", "-h", dir).Run() == nil }, filepath.Join(dir, "log"))
	return "host=" + dir + " user=test dbname=postgres"
}

// serve starts the server and waits until it answers.
func serve(tb testing.TB, cmd *exec.Cmd, answers func() bool, log string) {
	tb.Helper()
	file, err := os.Create(log)
	require.NoError(tb, err)
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	require.NoError(tb, cmd.Start())
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT) // at once, and its children with it, which SIGKILL would leave behind
		<-exited
	})
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !answers() {
		select {
		case <-tick.C:
		case <-limit.C:
			tb.Fatalf("PostgreSQL does not answer within %v: %s", patience, said(log))
		case <-exited:
			tb.Fatalf("PostgreSQL did not start: %s", said(log))
		}
	}
	version, err := exec.Command(cmd.Path, "--version").Output()
	require.NoError(tb, err)
	tb.Log(strings.TrimSpace(string(version)))
}

func said(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func initdb(tb testing.TB) string {
	path, err := exec.LookPath("initdb")
	if err != nil {
		found, _ := filepath.Glob(filepath.Join(dirs, "initdb")) // the pattern is well formed
		if len(found) == 0 {
			redistest.Unavailable(tb, fmt.Sprintf("no PostgreSQL server (initdb) on the PATH or in %s; install one (Debian: apt-get install postgresql)", dirs))
		}
		return slices.Max(found)
	}
	path, err = filepath.EvalSymlinks(path)
	require.NoError(tb, err)
	return path
}

// postgresUser is whom the server runs as, nil for this one: PostgreSQL refuses root.
func postgresUser(tb testing.TB) *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		redistest.Unavailable(tb, "no user postgres to run PostgreSQL as, which refuses root; its Debian package makes one")
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	require.NoError(tb, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	require.NoError(tb, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
