package holdfastcron_test

import (
	"context"
	"fmt"
	"time"

	"github.com/netresearch/go-cron"

	"github.com/holdfast-go/holdfast"
	holdfastcron "github.com/holdfast-go/holdfast/adapters/go-cron"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/rlock"
)

// Each machine runs this; the report is made on one of them.
func Example() {
	client, end := adaptertest.ForExample() // as holdfast.New makes one for each process
	defer end()

	once := holdfastcron.New(rlock.New(client, "jobs:report"), nil, holdfast.HoldAtLeast(time.Minute))
	job := cron.NewChain(once).Then(cron.FuncJobWithContext(func(context.Context) {
		fmt.Println("the report is made") // the context ends if the lock is lost, or the Cron stops
	}))

	c := cron.New()
	if _, err := c.AddJob("0 3 * * *", job); err != nil {
		fmt.Println(err)
		return
	}
	c.Start()
	job.Run() // it is three o'clock here,
	job.Run() // and half a minute later on another machine
	<-c.Stop().Done()
	// Output: the report is made
}
