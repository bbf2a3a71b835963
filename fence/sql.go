package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"regexp"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// SQL guards transactions with a table that has the last token of each resource. It works in
// PostgreSQL, in SQLite and in databases with the same SQL. Make one with [NewSQL]; it is
// immutable.
//
// If the rows that you write can have a column for the token, you need no table and no guard. Write
//
//	UPDATE accounts SET balance = $1, token = $2 WHERE id = $3 AND token <= $2
//
// If the row exists and was not changed, the token is stale. Use this in MySQL, whose upsert has no
// such condition.
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
		// One statement writes the first token and all later ones. So of two first writers, one
		// waits for the other. The statement locks the row even where it changes nothing. It writes
		// an equal token again, because the row must be locked then too.
		note: "INSERT INTO " + table + " AS seen (resource, token) VALUES ($1, $2) " +
			"ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE seen.token <= excluded.token",
		ask: "SELECT token FROM " + table + " WHERE resource = $1",
	}, nil
}

// Schema is the statement that makes the table.
func (g *SQL) Schema() string { return g.schema }

// Check stores the token of the context's hold, and refuses a stale token. Call it first in the
// transaction that writes, before any read that the writes depend on, and roll back if it fails.
// The row of the resource is locked until the transaction ends. So transactions on one resource run
// one after another, and a transaction that is rolled back leaves no token.
//
// Errors: [*StaleError]; [ErrNoToken]; [ErrSeveralLocks]; an error that names a bad argument and
// the remedy, before anything is sent; otherwise the database's error, wrapped. As after any other
// statement, the database may require that the transaction is repeated (40001 in PostgreSQL, from
// REPEATABLE READ up). If the token has become stale meanwhile, Check refuses the repeated transaction.
func (g *SQL) Check(ctx context.Context, tx *sql.Tx, resource string) error {
	token, err := only(ctx)
	if err != nil {
		return err
	}
	return g.CheckToken(ctx, tx, resource, token)
}

// CheckToken is Check for a token that does not come from the context.
func (g *SQL) CheckToken(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	if err := g.check(tx, resource, token); err != nil {
		return err
	}
	result, err := tx.ExecContext(ctx, g.note, resource, int64(token))
	if err != nil {
		return fmt.Errorf("fence: check of %s: %w", printable.Quote(resource), because(ctx, err))
	}
	noted, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("fence: check of %s: %w", printable.Quote(resource), because(ctx, err))
	}
	if noted > 0 {
		return nil
	}
	var last int64
	if err := tx.QueryRowContext(ctx, g.ask, resource).Scan(&last); err != nil {
		return fmt.Errorf("fence: %s was refused, and the token that it has seen cannot be read: %w", printable.Quote(resource),
			because(ctx, err))
	}
	return &StaleError{resource, token, uint64(last)}
}

// check finds bad arguments without asking the database.
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
