package holdfastriver_test

import (
	"context"
	"fmt"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/holdfast-go/holdfast"
	holdfastriver "github.com/holdfast-go/holdfast/adapters/river"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/rlock"
)

// Payments of one account are made one after another, by however many workers.
func Example() {
	ctx := context.Background()
	client, end := adaptertest.ForExample() // as holdfast.New makes one for each process
	defer end()

	once := holdfastriver.New(func(job *rivertype.JobRow) holdfast.Locker {
		if job.Kind != "pay" {
			return nil // needs no lock
		}
		return rlock.New(client, "account:"+string(job.EncodedArgs))
	}, 5*time.Second)
	config := &river.Config{Middleware: []rivertype.Middleware{once}} // and Queues, Workers, for river.NewClient

	// What River does with a job; the context ends if the lock is lost.
	err := once.Work(ctx, &rivertype.JobRow{Kind: "pay", EncodedArgs: []byte("42")}, func(ctx context.Context) error {
		fmt.Println("paid from account 42")
		return ctx.Err()
	})
	fmt.Println(len(config.Middleware), err)
	// Output:
	// paid from account 42
	// 1 <nil>
}
