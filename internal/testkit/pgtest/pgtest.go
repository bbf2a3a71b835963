// Package pgtest starts PostgreSQL for tests. A test that uses it imports the driver "pgx"
// (github.com/jackc/pgx/v5/stdlib), which this module does not have among its dependencies.
package pgtest

import (
	"database/sql"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// postgresDirs are where packages put the programs that are not for users, beside the PATH.
const postgresDirs = "/usr/lib/postgresql/*/bin"

// patience is how long the server may take to answer, on however busy a machine.
const patience = 30 * time.Second

// Start makes a database and starts a server for it, which ends with the test. Where there
// is no PostgreSQL the test is skipped loudly, and fails if CI=true. It listens on a socket and not
// on a port, which another could take.
func Start(t *testing.T) (dsn string) {
	t.Helper()
	initdb, owner := findInitdb(t), postgresUser(t)
	postgres := filepath.Join(filepath.Dir(initdb), "postgres") // of the same version
	dir, err := os.MkdirTemp("", "pg-")                         // t.TempDir can be too long a path for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	if owner != nil {
		require.NoError(t, os.Chown(dir, int(owner.Uid), int(owner.Gid)))
	}
	data := filepath.Join(dir, "data")
	program := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: owner}
		dieWithParent(cmd.SysProcAttr, syscall.SIGQUIT) // as below
		return cmd
	}
	out, err := program(initdb, "-D", data, "-A", "trust", "-U", "test", "-E", "UTF8", "--locale=C",
		"--no-sync").CombinedOutput()
	require.NoError(t, err, string(out))
	serve(t, program(postgres, "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off"),
		filepath.Join(dir, "log"), dir)
	return "host=" + dir + " user=test dbname=postgres"
}

// serve starts the server and waits until it answers.
func serve(t *testing.T, cmd *exec.Cmd, log, dir string) {
	t.Helper()
	file, err := os.Create(log)
	require.NoError(t, err)
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	require.NoError(t, cmd.Start())
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT) // at once, and its children with it, which SIGKILL would leave behind
		<-exited
	})
	db, err := sql.Open("pgx", "host="+dir+" user=test dbname=postgres")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.Eventually(t, func() bool {
		select {
		case <-exited:
			said, _ := os.ReadFile(log)
			t.Fatalf("PostgreSQL did not start: %s", said)
		default:
		}
		return db.PingContext(t.Context()) == nil
	}, patience, 2*time.Millisecond, "PostgreSQL answers")
	var version string
	require.NoError(t, db.QueryRowContext(t.Context(), "SHOW server_version").Scan(&version))
	t.Logf("PostgreSQL %s", version)
}

func findInitdb(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("initdb")
	if err != nil {
		found, _ := filepath.Glob(filepath.Join(postgresDirs, "initdb")) // the pattern is well formed
		if len(found) == 0 {
			redistest.Unavailable(t, "no PostgreSQL server (initdb) on the PATH or in "+postgresDirs+"; install one (Debian: apt-get install postgresql)")
		}
		return slices.Max(found)
	}
	path, err = filepath.EvalSymlinks(path)
	require.NoError(t, err)
	return path
}

// postgresUser is whom the server runs as, nil for this one: PostgreSQL refuses root.
func postgresUser(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		redistest.Unavailable(t, "no user postgres to run PostgreSQL as, which refuses root; its Debian package makes one")
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	require.NoError(t, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
