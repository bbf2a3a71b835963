// Package fence_test tests the guards of package fence on real stores: PostgreSQL, SQLite and
// Redis, with holders that come too late.
//
// Not here: what the guard's script replies on each version of Redis; that is beside the other scripts.
package fence_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit/child"
	"github.com/holdfast-go/holdfast/internal/testkit/pgtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// patience is how long a test waits for what must come, on however busy a machine.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	if job := os.Getenv(writerEnv); job != "" {
		if err := write(job); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	redistest.Main(m)
}

// writerEnv makes the test binary lock, wait for a word, and write: "<address of Redis> <name> <DSN of PostgreSQL>".
const writerEnv = "HOLDFAST_TEST_FENCED_WRITER"

// The places that a writer writes to. Each store has one that is guarded, and one that is not: the control.
const (
	guardedKey, plainKey = "stock:guarded", "stock:plain"
	guardedRow, plainRow = "guarded", "plain"
)

// wrote is what a writer says of its writes, "" for one that was accepted.
type wrote struct {
	Lost                                       bool // it had been told of its loss when it was done
	Redis, PlainRedis, Postgres, PlainPostgres string
}

// write is what such a process does. It prints its token when it has the lock, and what came of its writes.
func write(job string) error {
	where := strings.SplitN(job, " ", 3)
	rdb := redis.NewClient(&redis.Options{Addr: where[0]})
	defer rdb.Close()
	db, err := sql.Open("pgx", where[2])
	if err != nil {
		return err
	}
	defer db.Close()
	lease := time.Minute // the next one is to hold it all along, on a busy machine too
	if where[1] == "late" {
		lease = time.Second
	}
	c, err := holdfast.New(rdb, &holdfast.Options{Lease: lease})
	if err != nil {
		return err
	}
	h, err := rlock.New(c, "paused").Lock(context.Background(), holdfast.Wait(patience))
	if err != nil {
		return err
	}
	fmt.Println(h.Token())
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	// It does not look whether it still has the lock. Under the hold's own context the write might not be sent at all.
	w := writeAll(context.WithoutCancel(h.Context()), rdb, db, where[1])
	if err = h.Unlock(context.Background()); errors.Is(err, holdfast.ErrLost) {
		w.Lost, err = true, nil
	}
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(w), c.Close(context.Background()))
}

func writeAll(ctx context.Context, rdb *redis.Client, db *sql.DB, name string) (w wrote) {
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	_, err := fence.NewRedis(rdb).Do(ctx, guardedKey, "SET", name)
	w.Redis = text(err)
	w.PlainRedis = text(rdb.Set(ctx, plainKey, name, 0).Err())
	w.Postgres = text(inTransaction(ctx, db, name, guardedRow, true))
	w.PlainPostgres = text(inTransaction(ctx, db, name, plainRow, false))
	return w
}

func inTransaction(ctx context.Context, db *sql.DB, name, row string, guarded bool) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // of a committed one: nothing
	if guarded {
		g, err := fence.NewSQL("last_tokens")
		if err != nil {
			return err
		}
		if err := g.Check(ctx, tx, row); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "UPDATE stock SET writer = $1 WHERE name = $2", name, row); err != nil {
		return err
	}
	return tx.Commit()
}

// writer is such a process.
type writer struct {
	*child.Process
	token string
}

// startWriter returns when the process has the lock.
func startWriter(t *testing.T, addr, name, dsn string) *writer {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerEnv+"="+addr+" "+name+" "+dsn)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	child.DieWithParent(cmd.SysProcAttr, syscall.SIGKILL) // a stopped process would hear of nothing else
	w := &writer{Process: child.Start(t, cmd)}
	w.token = w.Says()
	require.Regexp(t, "^[0-9]+$", w.token)
	return w
}

// goOn lets it write, and returns what it says of that when it has ended.
func (w *writer) goOn() (said wrote) {
	w.Told("go on")
	require.NoError(w, json.Unmarshal([]byte(w.Says()), &said))
	w.Ends()
	return said
}

// TestPausedWriterIsRefused: a process is stopped while it holds the lock, for longer than its lease. Another one gets the lock
// and writes. The first one goes on and writes too, as if nothing had happened. The guards refuse it, in Redis and in
// PostgreSQL, and name both tokens. The control is the same write without a guard: it lands on what is newer.
func TestPausedWriterIsRefused(t *testing.T) {
	dsn := pgtest.Start(t)
	db := open(t, "pgx", dsn)
	srv := redistest.Start(t)
	rdb, ctx := srv.Client(t), t.Context()
	g, err := fence.NewSQL("last_tokens")
	require.NoError(t, err)
	for _, statement := range []string{
		g.Schema(),
		"CREATE TABLE stock (name TEXT PRIMARY KEY, writer TEXT NOT NULL)",
		"INSERT INTO stock VALUES ('" + guardedRow + "', ''), ('" + plainRow + "', '')",
	} {
		_, err := db.ExecContext(ctx, statement)
		require.NoError(t, err)
	}

	late := startWriter(t, srv.Addr(), "late", dsn)
	require.NoError(t, late.Cmd.Process.Signal(redistest.Halt))
	next := startWriter(t, srv.Addr(), "next", dsn)
	require.Greater(t, next.token, late.token)
	require.Equal(t, wrote{}, next.goOn(), "all of its writes are accepted, and it held the lock all along")

	require.NoError(t, late.Cmd.Process.Signal(redistest.GoOn))
	said := late.goOn()
	require.True(t, said.Lost)
	both := fmt.Sprintf("has seen %s, and this one is %s", next.token, late.token)
	require.Equal(t, fmt.Sprintf("fence: stale fencing token: %q %s", guardedKey, both), said.Redis)
	require.Equal(t, fmt.Sprintf("fence: stale fencing token: %q %s", guardedRow, both), said.Postgres)
	require.Empty(t, said.PlainRedis)
	require.Empty(t, said.PlainPostgres)

	require.Equal(t, "next", rdb.Get(ctx, guardedKey).Val())
	require.Equal(t, "late", rdb.Get(ctx, plainKey).Val(), "the control")
	for row, want := range map[string]string{guardedRow: "next", plainRow: "late"} {
		var writer string
		require.NoError(t, db.QueryRowContext(ctx, "SELECT writer FROM stock WHERE name = $1", row).Scan(&writer))
		require.Equal(t, want, writer, row)
	}
}
