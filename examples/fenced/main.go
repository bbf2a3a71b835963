// Command fenced takes a chair from the stock, in PostgreSQL, under a lock in Redis. The database refuses a holder
// who paused for longer than its lease: OVERTAKEN=1 acts that out. It makes the tables stock and last_tokens.
//
//	POSTGRES=postgres://user:password@127.0.0.1:5432/db go run ./examples/fenced
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/rlock"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	dsn := os.Getenv("POSTGRES")
	if dsn == "" {
		return errors.New("POSTGRES is empty; set it to the DSN of a database in which tables may be made")
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	logging.Disable() // during an outage go-redis would write to stderr; the errors say what is the matter
	rdb := redis.NewClient(&redis.Options{Addr: cmp.Or(os.Getenv("REDIS"), "127.0.0.1:6379")})
	defer rdb.Close()
	client, err := holdfast.New(rdb, nil)
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	guard, err := fence.NewSQL("last_tokens") // a table that has the last token of each resource
	if err != nil {
		return err
	}
	const stock = `;CREATE TABLE IF NOT EXISTS stock (product TEXT PRIMARY KEY, pieces BIGINT NOT NULL);
		INSERT INTO stock VALUES ('chair', 10) ON CONFLICT DO NOTHING`
	if _, err := db.ExecContext(ctx, guard.Schema()+stock); err != nil { // yours would be in a migration
		return err
	}
	lock := rlock.New(client, "stock:chair")
	hold, err := lock.Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Unlock(ctx)
	work := hold.Context()
	if os.Getenv("OVERTAKEN") != "" { // somebody else gets the lock and writes, and this process does not notice
		work = context.WithoutCancel(work)
		if _, err := lock.ForceUnlock(ctx); err != nil {
			return err
		}
		if err := holdfast.Do(ctx, lock, func(ctx context.Context) error { return take(ctx, db, guard) }); err != nil {
			return err
		}
	}
	if err := take(work, db, guard); !errors.Is(err, fence.ErrStale) {
		return err
	}
	fmt.Println("refused: a later holder has written")
	return nil
}

// take is one transaction. Check comes first: it locks the resource's row of tokens until the end, and
// refuses a token that is smaller than the last one. The token is in the context of the hold.
func take(ctx context.Context, db *sql.DB, guard *fence.SQL) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if err := guard.Check(ctx, tx, "chair"); err != nil {
		return err
	}
	var left int
	row := tx.QueryRowContext(ctx, "UPDATE stock SET pieces = pieces - 1 WHERE product = 'chair' RETURNING pieces")
	if err := row.Scan(&left); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	fmt.Println("taken, left:", left)
	return nil
}
