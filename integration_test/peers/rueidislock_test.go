package peers_test

import (
	"context"
	"time"

	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

func beforeRueidislock(ctx context.Context, locker rueidislock.Locker, work job) error {
	held, cancel, err := locker.WithContext(ctx, "orders:42")
	if err != nil {
		return err
	}
	defer cancel()
	return work(held) // renewed; held is cancelled if the lock is lost
}

func whileRueidislock(ctx context.Context, locker rueidislock.Locker, client *holdfast.Client, work job) error {
	return beforeRueidislock(ctx, locker, func(held context.Context) error { // the old lock first, everywhere
		return afterRueidislock(held, client, work)
	})
}

func afterRueidislock(ctx context.Context, client *holdfast.Client, work job) error {
	return holdfast.Do(ctx, rlock.New(client, "orders:42"), work, holdfast.Wait(5*time.Second))
}
