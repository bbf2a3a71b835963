package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// repository knows nothing of locks: the token comes with the context.
type repository struct {
	db    *sql.DB
	guard *fence.SQL
}

func (r *repository) setPrice(ctx context.Context, article string, price int) error {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := r.guard.Check(ctx, tx, article); err != nil {
		return err // errors.Is(err, fence.ErrStale): another holder has been here since
	}
	if _, err := tx.ExecContext(ctx, "UPDATE prices SET price = $1 WHERE article = $2", price, article); err != nil {
		return err
	}
	return tx.Commit()
}

// A holder who was overtaken comes late, and the database refuses its transaction. SQLite stands for any database here.
func Example_sql() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.ForExample()})
	defer rdb.Close()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection would have a memory of its own
	if err := pricing(ctx, rdb, db); err != nil {
		fmt.Println("error:", err)
	}
	// Output:
	// refused: true
	// the price is 20
}

func pricing(ctx context.Context, rdb *redis.Client, db *sql.DB) error {
	client, err := holdfast.New(rdb, nil)
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	guard, err := fence.NewSQL("fencing_tokens")
	if err != nil {
		return err
	}
	for _, statement := range []string{
		guard.Schema(), // once, with the other migrations
		"CREATE TABLE prices (article TEXT PRIMARY KEY, price INTEGER)",
		"INSERT INTO prices VALUES ('article:7', 10)",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	lock, prices := rlock.New(client, "article:7"), &repository{db, guard}

	late, err := lock.Lock(ctx)
	if err != nil {
		return err
	}
	if _, err := lock.ForceUnlock(ctx); err != nil { // as if it had been paused for longer than its lease
		return err
	}
	hold, err := lock.Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Unlock(ctx)
	if err := prices.setPrice(hold.Context(), "article:7", 20); err != nil {
		return err
	}

	unaware := context.WithoutCancel(late.Context()) // it does not know of its loss
	err = prices.setPrice(unaware, "article:7", 15)
	fmt.Println("refused:", errors.Is(err, fence.ErrStale))
	var price int
	if err := db.QueryRowContext(ctx, "SELECT price FROM prices WHERE article = 'article:7'").Scan(&price); err != nil {
		return err
	}
	fmt.Println("the price is", price)
	return nil
}
