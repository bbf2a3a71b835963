package holdfastasynq_test

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/holdfast-go/holdfast"
	holdfastasynq "github.com/holdfast-go/holdfast/adapters/asynq"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// Payments of one account are made one after another, by however many workers.
func Example() {
	client, end := adaptertest.ForExample() // as holdfast.New makes one for each process
	defer end()
	addr := redistest.ForExample()

	mux := asynq.NewServeMux()
	mux.Use(holdfastasynq.New(func(t *asynq.Task) holdfast.Locker {
		return rlock.New(client, "account:"+string(t.Payload()))
	}))
	paid := make(chan struct{})
	mux.HandleFunc("pay", func(ctx context.Context, t *asynq.Task) error { // ctx ends if the lock is lost
		fmt.Println("paid from account", string(t.Payload()))
		close(paid)
		return ctx.Err()
	})
	srv := asynq.NewServer(asynq.RedisClientOpt{Addr: addr}, asynq.Config{
		IsFailure:      holdfastasynq.IsFailure,
		RetryDelayFunc: holdfastasynq.RetryDelay(5*time.Second, asynq.DefaultRetryDelayFunc),
		LogLevel:       asynq.FatalLevel,
	})
	if err := srv.Start(mux); err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Shutdown()

	tasks := asynq.NewClient(asynq.RedisClientOpt{Addr: addr})
	defer tasks.Close()
	if _, err := tasks.Enqueue(asynq.NewTask("pay", []byte("42"))); err != nil {
		fmt.Println(err)
		return
	}
	<-paid
	// Output: paid from account 42
}
