package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/pgtest"
)

func open(t *testing.T, driver, dsn string) *sql.DB {
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// store is a table that a guard is for, with the guard's own table.
type store struct {
	*testing.T
	db    *sql.DB
	guard *fence.SQL
}

func newStore(t *testing.T, db *sql.DB, table string) *store {
	g, err := fence.NewSQL(table)
	require.NoError(t, err)
	s := &store{t, db, g}
	s.exec(g.Schema())
	s.exec(g.Schema()) // harmless twice
	s.exec("CREATE TABLE IF NOT EXISTS stock (name TEXT PRIMARY KEY, value BIGINT NOT NULL)")
	s.exec("DELETE FROM " + table)
	s.exec("DELETE FROM stock")
	s.exec("INSERT INTO stock VALUES ('a', 0), ('b', 0)")
	return s
}

func (s *store) exec(statement string, args ...any) {
	require.NoError(s, kindtest.Err(s.db.ExecContext(s.Context(), statement, args...)), statement)
}

func (s *store) begin(level sql.IsolationLevel) *sql.Tx {
	tx, err := s.db.BeginTx(s.Context(), &sql.TxOptions{Isolation: level})
	require.NoError(s, err)
	s.Cleanup(func() { _ = tx.Rollback() }) // if the test broke off
	return tx
}

// write is what a holder does in its transaction: it writes its token, after a check unless that is left out.
func (s *store) write(ctx context.Context, tx *sql.Tx, resource string, token uint64, guarded bool) error {
	if guarded {
		if err := s.guard.CheckToken(ctx, tx, resource, token); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, "UPDATE stock SET value = $1 WHERE name = $2", int64(token), resource)
	return err
}

// once writes in a transaction of its own.
func (s *store) once(resource string, token uint64) error {
	tx := s.begin(sql.LevelDefault)
	if err := s.write(s.Context(), tx, resource, token, true); err != nil {
		require.NoError(s, tx.Rollback())
		return err
	}
	return tx.Commit()
}

func (s *store) value(resource string) (value uint64) {
	require.NoError(s, s.db.QueryRowContext(s.Context(), "SELECT value FROM stock WHERE name = $1", resource).Scan(&value))
	return value
}

// requireStale: refused, with both tokens.
func requireStale(t *testing.T, err error, resource string, token, last uint64) {
	require.ErrorIs(t, err, fence.ErrStale)
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, fence.StaleError{Resource: resource, Token: token, Last: last}, *stale)
}

// TestSQLite: what the guard says, in memory and in a file.
func TestSQLite(t *testing.T) {
	for name, dsn := range map[string]string{"memory": ":memory:", "file": filepath.Join(t.TempDir(), "store.db")} {
		t.Run(name, func(t *testing.T) {
			db := open(t, "sqlite", dsn)
			db.SetMaxOpenConns(1) // each connection would have a memory of its own
			newStore(t, db, "main.last_tokens").answers()
		})
	}
}

// TestSQLiteOfTwo: SQLite has one writer at a time; the other one is told so, and not that it is stale.
func TestSQLiteOfTwo(t *testing.T) {
	s := newStore(t, open(t, "sqlite", filepath.Join(t.TempDir(), "store.db")), "last_tokens")
	first, second := s.begin(sql.LevelDefault), s.begin(sql.LevelDefault)
	require.NoError(t, s.write(t.Context(), first, "a", 12, true))
	err := s.write(t.Context(), second, "a", 11, true)
	require.ErrorContains(t, err, `fence: check of "a": `)
	require.ErrorContains(t, err, "SQLITE_BUSY")
	require.NotErrorIs(t, err, fence.ErrStale)
	require.NoError(t, second.Rollback())
	require.NoError(t, first.Commit())
	requireStale(t, s.once("a", 11), "a", 11, 12)
}

// TestEndedContextSaysWhy: the error has the cause, such as a lost lock, and not only that the context has ended.
func TestEndedContextSaysWhy(t *testing.T) {
	db := open(t, "sqlite", ":memory:")
	db.SetMaxOpenConns(1)
	s := newStore(t, db, "last_tokens")
	ctx, cancel := context.WithCancelCause(t.Context())
	tx := s.begin(sql.LevelDefault)
	cancel(holdfast.ErrLost)
	kindtest.Tells(t, s.guard.CheckToken(ctx, tx, "a", 11), context.Canceled, holdfast.ErrLost, kindtest.Not(fence.ErrStale))
	require.NoError(t, tx.Rollback())
}

// TestPostgres: the same in PostgreSQL, and what two transactions at once come to.
func TestPostgres(t *testing.T) {
	dsn := pgtest.Start(t)
	s := newStore(t, open(t, "pgx", dsn), "public.last_tokens")
	t.Run("answers", func(t *testing.T) { newStore(t, s.db, "public.last_tokens").answers() })
	t.Run("own column", func(t *testing.T) { ownColumn(t, s.db) })
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) {
			for _, r := range races {
				t.Run(r.name, func(t *testing.T) { newStore(t, s.db, "public.last_tokens").race(level, r) })
			}
			t.Run("a snapshot hides nothing", func(t *testing.T) { newStore(t, s.db, "public.last_tokens").snapshot(level) })
		})
	}
}

// answers is what one transaction after another is told.
func (s *store) answers() {
	require.NoError(s, s.once("a", 11), "the first")
	require.NoError(s, s.once("a", 11), "an equal one")
	require.NoError(s, s.once("a", 13), "a greater one")
	for _, stale := range []uint64{1, 11, 12} {
		requireStale(s.T, s.once("a", stale), "a", stale, 13)
	}
	require.Equal(s, uint64(13), s.value("a"))
	require.NoError(s, s.once("b", 1), "another resource")
	const odd = "it's; \"b\"\n$1"
	require.NoError(s, s.once(odd, 2), "whatever it is called")
	requireStale(s.T, s.once(odd, 1), odd, 1, 2)
	require.NoError(s, s.once("b", math.MaxInt64), "the greatest of all")
	requireStale(s.T, s.once("b", math.MaxInt64-1), "b", math.MaxInt64-1, math.MaxInt64)

	tx := s.begin(sql.LevelDefault)
	require.NoError(s, s.write(s.Context(), tx, "a", 20, true))
	require.NoError(s, tx.Rollback())
	require.NoError(s, s.once("a", 14), "what was rolled back was not noted")
	require.ErrorIs(s, s.guard.CheckToken(s.Context(), tx, "a", 21), sql.ErrTxDone)

	// Control: without the guard the late write lands.
	tx = s.begin(sql.LevelDefault)
	require.NoError(s, s.write(s.Context(), tx, "a", 11, false))
	require.NoError(s, tx.Commit())
	require.Equal(s, uint64(11), s.value("a"))
}

// Two transactions at once, of holders of whom one has overtaken the other.

// race: the first one has checked and written when the second one comes, which has to wait for it.
type race struct {
	name          string
	seen          uint64 // before; 0: nobody has written yet, so there is no row
	first, second uint64 // tokens
	rollback      bool   // the first one changes its mind
	want          uint64 // who has written last
	stale         uint64 // for what the second one is refused, 0: it is not
}

var races = []race{
	{name: "nobody yet, the late one first", first: 11, second: 12, want: 12},
	{name: "nobody yet, the late one second", first: 12, second: 11, want: 12, stale: 12},
	{name: "nobody yet, the same", first: 11, second: 11, want: 11},
	{name: "nobody yet, and it stays so", first: 12, second: 11, rollback: true, want: 11},
	{name: "the late one first", seen: 5, first: 11, second: 12, want: 12},
	{name: "the late one second", seen: 5, first: 12, second: 11, want: 12, stale: 12},
	{name: "the same", seen: 11, first: 11, second: 11, want: 11},
	{name: "the newer one changes its mind", seen: 5, first: 12, second: 11, rollback: true, want: 11},
	{name: "stale whatever the first one does", seen: 12, first: 13, second: 11, rollback: true, want: 12, stale: 12},
}

func (s *store) race(level sql.IsolationLevel, r race) {
	if r.seen > 0 {
		require.NoError(s, s.once("a", r.seen))
	}
	require.Equal(s, r.want, s.raced(level, r, true))

	// The control: without the guard whoever comes second has the last word, overtaken or not.
	if level == sql.LevelReadCommitted {
		require.Equal(s, r.second, s.raced(level, r, false))
	}
}

// raced plays the race and returns who has written last.
func (s *store) raced(level sql.IsolationLevel, r race, guarded bool) uint64 {
	first, second := s.begin(level), s.begin(level)
	require.NoError(s, s.write(s.Context(), first, "a", r.first, guarded))
	done := make(chan error, 1)
	go func() { done <- s.write(s.Context(), second, "a", r.second, guarded) }()
	kindtest.Eventually(s.T, "the second one waits for the first", func() bool { return s.waiting() || len(done) > 0 })
	require.Empty(s, done, "it did not wait")
	if r.rollback {
		require.NoError(s, first.Rollback())
	} else {
		require.NoError(s, first.Commit())
	}
	err := <-done
	if repeat(err) { // the database wants it repeated, and then it is told
		require.NotEqual(s, sql.LevelReadCommitted, level)
		require.NotErrorIs(s, err, fence.ErrStale)
		require.NoError(s, second.Rollback())
		second = s.begin(level)
		err = s.write(s.Context(), second, "a", r.second, guarded)
	}
	if r.stale > 0 && guarded {
		requireStale(s.T, err, "a", r.second, r.stale)
		require.NoError(s, second.Rollback())
	} else {
		require.NoError(s, err)
		require.NoError(s, second.Commit())
	}
	return s.value("a")
}

// waiting reports whether some transaction waits for another.
func (s *store) waiting() bool {
	var n int
	require.NoError(s, s.db.QueryRowContext(s.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&n))
	return n > 0
}

// repeat reports whether the database asks for the transaction to be repeated.
func repeat(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "40001"
}

// snapshot: a transaction that looked before the newer token was noted does not get past it.
func (s *store) snapshot(level sql.IsolationLevel) {
	late := s.begin(level)
	var n int
	require.NoError(s, late.QueryRowContext(s.Context(), "SELECT count(*) FROM stock").Scan(&n))
	require.NoError(s, s.once("a", 12))
	err := s.write(s.Context(), late, "a", 11, true)
	require.Error(s, err)
	if level == sql.LevelReadCommitted {
		requireStale(s.T, err, "a", 11, 12)
	} else {
		require.True(s, repeat(err), "%v", err)
	}
	require.NoError(s, late.Rollback())
	require.Equal(s, uint64(12), s.value("a"))
}

// ownColumn: the statement that the comment of fence.SQL recommends where rows can have a column for the token.
func ownColumn(t *testing.T, db *sql.DB) {
	exec := func(statement string, args ...any) (changed int64) {
		result, err := db.ExecContext(t.Context(), statement, args...)
		require.NoError(t, err)
		changed, err = result.RowsAffected()
		require.NoError(t, err)
		return changed
	}
	exec("CREATE TABLE accounts (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL, token BIGINT NOT NULL)")
	exec("INSERT INTO accounts VALUES (7, 100, 0)")
	const update = "UPDATE accounts SET balance = $1, token = $2 WHERE id = $3 AND token <= $2"
	require.Equal(t, int64(1), exec(update, 90, 12, 7))
	require.Equal(t, int64(1), exec(update, 80, 12, 7), "an equal one")
	require.Zero(t, exec(update, 70, 11, 7), "a smaller one")
	var balance int
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT balance FROM accounts WHERE id = 7").Scan(&balance))
	require.Equal(t, 80, balance)
}
