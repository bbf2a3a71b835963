package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"regexp"
)

// SQL guards transactions with a table that has the last token of each resource, in PostgreSQL and
// in SQLite, and in what speaks their SQL. Make one with [NewSQL]; it is immutable.
//
// Where the rows that are written can have a column of their own for the token, no table and no
// guard is needed: write
//
//	UPDATE accounts SET balance = $1, token = $2 WHERE id = $3 AND token <= $2
//
// and take it for a refusal if no row was changed and the row is there. MySQL has no such condition
// in an upsert, and is to be guarded like this.
type SQL struct {
	schema, note, ask string
}

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// NewSQL makes a guard with a table, whose columns are those of [SQL.Schema]. table is a name of
// letters, digits and underscores, with the schema and a dot before it if need be. Any other name
// is refused, because the name is written into statements unchanged.
func NewSQL(table string) (*SQL, error) {
	if !tableName.MatchString(table) {
		return nil, fmt.Errorf("fence: table is %q; use letters, digits and underscores, with the schema and a dot before it if need be",
			table)
	}
	return &SQL{
		schema: "CREATE TABLE IF NOT EXISTS " + table + " (resource TEXT PRIMARY KEY, token BIGINT NOT NULL)",
		// One statement for the first token and for all later ones, so that of two who come first
		// one waits for the other. It locks the row also where it changes nothing. An equal token
		// is written again, because the lock is wanted then too.
		note: "INSERT INTO " + table + " AS seen (resource, token) VALUES ($1, $2) " +
			"ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE seen.token <= excluded.token",
		ask: "SELECT token FROM " + table + " WHERE resource = $1",
	}, nil
}

// Schema is the statement that makes the table.
func (g *SQL) Schema() string { return g.schema }

// Check notes the token of the context's hold, and refuses a stale one. Call it first in the
// transaction that writes, before what the writes depend on is read, and roll back if it fails. The
// row of the resource is locked until the transaction ends, so those who write to one resource come
// one after another, and a transaction that is rolled back has noted nothing.
//
// Errors: [*StaleError]; [ErrNoToken]; [ErrSeveralLocks]; one that names the argument and the
// remedy, before anything is sent; else the database's, wrapped. Among those is the one that asks
// for the transaction to be repeated (40001 in PostgreSQL, from REPEATABLE READ up), as from any
// other statement: the repeated one is refused if it has become stale.
func (g *SQL) Check(ctx context.Context, tx *sql.Tx, resource string) error {
	token, err := only(ctx)
	if err != nil {
		return err
	}
	return g.CheckToken(ctx, tx, resource, token)
}

// CheckToken is Check for a token that came another way than by the context.
func (g *SQL) CheckToken(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	if err := g.check(tx, resource, token); err != nil {
		return err
	}
	result, err := tx.ExecContext(ctx, g.note, resource, int64(token))
	if err != nil {
		return fmt.Errorf("fence: check of %q: %w", resource, because(ctx, err))
	}
	noted, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("fence: check of %q: %w", resource, err)
	}
	if noted > 0 {
		return nil
	}
	var last int64
	if err := tx.QueryRowContext(ctx, g.ask, resource).Scan(&last); err != nil {
		return fmt.Errorf("fence: %q was refused, and the token that it has seen cannot be read: %w", resource,
			because(ctx, err))
	}
	return &StaleError{resource, token, uint64(last)}
}

// check looks at what can be told without the database.
func (g *SQL) check(tx *sql.Tx, resource string, token uint64) error {
	switch {
	case g == nil || g.note == "":
		return errors.New("fence: the guard is empty; make it with fence.NewSQL")
	case tx == nil:
		return errors.New("fence: tx is nil; check in the transaction that writes")
	case resource == "":
		return errors.New("fence: resource is empty; name what is written")
	case token == 0:
		return errZero
	case token > math.MaxInt64:
		return fmt.Errorf("fence: token is %d, which no column holds; tokens of holds are less than 2^53", token)
	}
	return nil
}
