package holdfastgoose

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/pressly/goose/v3/lock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/adapt"
)

// DefaultWait is how long an operation waits for the lock.
const DefaultWait = 5 * time.Minute

// Locker is a lock.Locker for goose.WithLocker, and a lock.SessionLocker for what takes no other. Make
// one with [New]. All methods are safe for concurrent use, and several providers may share it. (Goose
// calls Lock for a provider's next operation while Unlock of the last one still runs.)
type Locker struct {
	lock     holdfast.Locker
	opts     []holdfast.Option
	bases    adapt.Holds[*sql.DB]
	sessions adapt.Holds[*sql.Conn]
}

var (
	_ lock.Locker        = (*Locker)(nil)
	_ lock.SessionLocker = (*Locker)(nil)
)

// New makes a Locker of a lock of any kind. Take one lock for each database. opts are for each
// operation; give [holdfast.Wait] for another limit than [DefaultWait].
func New(lock holdfast.Locker, opts ...holdfast.Option) *Locker {
	return &Locker{lock: lock, opts: adapt.Defaults(opts, holdfast.Wait(DefaultWait))}
}

// Lock is called by goose before it migrates. ctx bounds the wait, too. It is not kept: the lock is
// held until Unlock.
func (l *Locker) Lock(ctx context.Context, db *sql.DB) error { return lockAs(ctx, l, &l.bases, db) }

// Unlock is called by goose afterwards. Its error is [holdfast.ErrLost] if the lock was lost. It frees
// nobody else's lock.
func (l *Locker) Unlock(ctx context.Context, db *sql.DB) error { return unlockAs(ctx, &l.bases, db) }

// SessionLock is Lock, for the operation on one connection.
func (l *Locker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	return lockAs(ctx, l, &l.sessions, conn)
}

// SessionUnlock is Unlock, for the operation on one connection.
func (l *Locker) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	return unlockAs(ctx, &l.sessions, conn)
}

func lockAs[K comparable](ctx context.Context, l *Locker, holds *adapt.Holds[K], key K) error {
	hold, err := adapt.Lock(ctx, l.lock, l.opts...)
	if err != nil {
		return err
	}
	holds.Add(key, hold)
	return nil
}

func unlockAs[K comparable](ctx context.Context, holds *adapt.Holds[K], key K) error {
	hold := holds.Take(key)
	if hold == nil {
		return fmt.Errorf("holdfastgoose: unlock without a lock: %w", holdfast.ErrReleased)
	}
	return hold.Unlock(ctx)
}
