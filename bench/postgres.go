package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// postgresDirs are where packages put the programs that are not for users, beside the PATH.
const postgresDirs = "/usr/lib/postgresql/*/bin"

// startPostgres makes a database in dir and starts a server for it, with the settings that initdb
// chooses: fsync is on. An error says why there is none.
func startPostgres(ctx context.Context, dir string) (dsn string, stop func(), err error) {
	initdb, err := postgresProgram("initdb")
	if err != nil {
		return "", nil, err
	}
	postgres, err := postgresProgram("postgres")
	if err != nil {
		return "", nil, err
	}
	attr, err := postgresUser()
	if err != nil {
		return "", nil, err
	}
	data, err := postgresDir(dir, attr)
	if err != nil {
		return "", nil, err
	}
	init := exec.CommandContext(ctx, initdb, "-D", data, "-A", "trust", "-U", "bench")
	init.SysProcAttr, init.Dir = attr, data
	if out, err := init.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("initdb failed: %w: %s", err, tail(string(out)))
	}
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(postgres, "-D", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "max_connections=200")
	cmd.Dir = data
	if attr != nil {
		copied := *attr
		cmd.SysProcAttr = &copied
	}
	log := filepath.Join(dir, "postgres.log")
	s, err := spawn(cmd, log)
	if err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT) // at once, and its children with it, which SIGKILL would leave behind
		_ = cmd.Wait()
	}
	dsn = fmt.Sprintf("postgres://bench@127.0.0.1:%d/postgres?sslmode=disable", port)
	if err := eventually(ctx, func() error {
		return withPostgres(ctx, dsn,
			func(*pgx.Conn) error { return nil })
	}); err != nil {
		s.stop()
		return "", nil, fmt.Errorf("PostgreSQL does not answer: %w; it said: %s", err, fileTail(log))
	}
	return dsn, stop, nil
}

func postgresProgram(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, _ := filepath.Glob(filepath.Join(postgresDirs, name)) // the pattern is well formed
	if len(found) == 0 {
		return "", errors.New("no PostgreSQL server here (" + name + ")")
	}
	return slices.Max(found), nil
}

// postgresUser is whom the server runs as: PostgreSQL refuses root.
func postgresUser() (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, errors.New("no user postgres to run PostgreSQL as; it refuses root")
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// postgresDir makes the directory of the data, which must belong to that user and be reached by it.
func postgresDir(dir string, attr *syscall.SysProcAttr) (string, error) {
	data := filepath.Join(dir, "postgres")
	if err := os.Mkdir(data, 0o700); err != nil || attr == nil {
		return data, err
	}
	return data, errors.Join(os.Chmod(dir, 0o711), os.Chown(data, int(attr.Credential.Uid), int(attr.Credential.Gid)))
}

func withPostgres(ctx context.Context, dsn string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	return errors.Join(do(conn), conn.Close(ctx))
}

func postgresVersion(ctx context.Context, dsn string) (version string) {
	_ = withPostgres(ctx, dsn, func(c *pgx.Conn) error { // empty if it does not say
		return c.QueryRow(ctx, "show server_version").Scan(&version)
	})
	return version
}
