package main

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgresClient locks with pg_advisory_lock. The lock belongs to a session, so each goroutine has
// a connection of its own; a pool that pins a connection while the lock is held comes to the same
// once it is warm.
type postgresClient struct {
	dsn string

	mu    sync.Mutex // guards the rest
	conns []*pgx.Conn
}

func openPostgres(j job) (client, error) { return &postgresClient{dsn: j.DSN}, nil }

func (c *postgresClient) locker(ctx context.Context, name string) (locker, error) {
	conn, err := pgx.Connect(ctx, c.dsn)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.conns = append(c.conns, conn)
	c.mu.Unlock()
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	key := int64(h.Sum64())
	return func(ctx context.Context) (func() error, uint64, error) {
		if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", key); err != nil {
			return nil, 0, err
		}
		return func() error {
			_, err := conn.Exec(context.Background(), "select pg_advisory_unlock($1)", key)
			return err
		}, 0, nil
	}, nil
}

// close does not wait long for a connection whose query was cancelled.
func (c *postgresClient) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close(ctx) // a cancelled query has closed it already
	}
	return nil
}
