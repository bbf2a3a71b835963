package fence_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
)

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
	eventually(s.T, "the second one waits for the first", func() bool { return s.waiting() || len(done) > 0 })
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

// ownColumn: the statement that the comment of fence.SQL recommends where rows can have a column
// for the token.
func ownColumn(t *testing.T, db *sql.DB) {
	exec := func(statement string, args ...any) (changed int64) {
		t.Helper()
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
