// Command fenced takes a piece from the stock, in PostgreSQL, under a lock in Redis. The database refuses a holder who was overtaken:
// one that paused for longer than its lease and does not know. POSTGRES is the database's DSN. With
// OVERTAKEN=1 that is acted out.
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
	db, err := sql.Open("pgx", os.Getenv("POSTGRES"))
	if err != nil {
		return err
	}
	defer db.Close()
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
	for _, statement := range []string{guard.Schema(), // yours would be in a migration
		"CREATE TABLE IF NOT EXISTS stock (product TEXT PRIMARY KEY, pieces BIGINT NOT NULL)",
		"INSERT INTO stock VALUES ('chair', 10) ON CONFLICT DO NOTHING"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
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
		if err := holdfast.Do(ctx, lock, func(ctx context.Context) error { return take(ctx, db, guard, "chair") }); err != nil {
			return err
		}
	}
	if err := take(work, db, guard, "chair"); errors.Is(err, fence.ErrStale) {
		fmt.Println("refused: a later holder has written")
		return nil
	} else if err != nil {
		return err
	}
	return nil
}

// take is one transaction. Check comes first: it locks the resource's row of tokens until the end, and
// refuses a token that is smaller than the last one. The token is in the context of the hold.
func take(ctx context.Context, db *sql.DB, guard *fence.SQL, product string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if err := guard.Check(ctx, tx, product); err != nil {
		return err
	}
	var left int
	if err := tx.QueryRowContext(ctx, "UPDATE stock SET pieces = pieces - 1 WHERE product = $1 RETURNING pieces", product).Scan(&left); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	fmt.Println("taken, left:", left)
	return nil
}
