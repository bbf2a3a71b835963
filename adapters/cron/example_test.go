package holdfastcron_test

import (
	"context"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	holdfastcron "github.com/holdfast-go/holdfast/adapters/cron"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/rlock"
)

// Each machine runs this; the report is made on one of them.
func Example() {
	client, end := adaptertest.ForExample() // as holdfast.New makes one for each process
	defer end()

	report := func(context.Context) { // its context ends if the lock is lost
		fmt.Println("the report is made")
	}
	logger := cron.DefaultLogger
	once := holdfastcron.New(rlock.New(client, "jobs:report"), logger, holdfast.HoldAtLeast(time.Minute))
	job := cron.NewChain(cron.Recover(logger), once).Then(holdfastcron.FuncJob(report))

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
