package peers_test

import (
	"context"
	"database/sql"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

func beforeAdvisory(ctx context.Context, db *sql.DB, work job) error {
	conn, err := db.Conn(ctx) // the lock is the session's
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", "orders:42"); err != nil {
		return err
	}
	// Without this it ends with the session. (sql.DB keeps the session when conn is closed, and the lock with it.)
	defer conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock(hashtextextended($1, 0))", "orders:42")
	return work(ctx) // nobody says so if the connection breaks, and the lock with it
}

func whileAdvisory(ctx context.Context, db *sql.DB, client *holdfast.Client, work job) error {
	return beforeAdvisory(ctx, db, func(ctx context.Context) error { // the old lock first, everywhere
		return afterAdvisory(ctx, client, work)
	})
}

func afterAdvisory(ctx context.Context, client *holdfast.Client, work job) error {
	return holdfast.Do(ctx, rlock.New(client, "orders:42"), work, holdfast.Wait(5*time.Second))
}
