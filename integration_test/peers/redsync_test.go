package peers_test

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

// job is what a program does under its lock.
type job = func(ctx context.Context) error

func beforeRedsync(ctx context.Context, rdb *redis.Client, work job) error {
	rs := redsync.New(goredis.NewPool(rdb))
	mutex := rs.NewMutex("orders:42", redsync.WithExpiry(30*time.Second))
	if err := mutex.LockContext(ctx); err != nil {
		return err // after 32 tries, also where Redis was down; ErrFailed, before that, if ctx has ended
	}
	defer mutex.UnlockContext(context.WithoutCancel(ctx)) // it is not sent on a ctx that was cancelled
	return work(ctx)                                      // has to be done by mutex.Until(), or to call mutex.ExtendContext before
}

func afterRedsync(ctx context.Context, client *holdfast.Client, work job) error {
	orders := rlock.New(client, "orders:42", rlock.RespectStrings()) // leave the option out when redsync is gone
	hold, err := orders.Lock(ctx, holdfast.Wait(5*time.Second))
	if err != nil {
		return err // ErrNotAcquired: somebody has it; ErrUnavailable: Redis did not answer; and the cause of ctx
	}
	defer hold.Unlock(ctx)      // sent on a cancelled ctx, too; its error is the last word on a loss
	return work(hold.Context()) // renewed for as long as it takes; ends with ErrLost if the lock is lost
}
