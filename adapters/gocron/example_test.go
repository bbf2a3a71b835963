package holdfastgocron_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
	holdfastgocron "github.com/holdfast-go/holdfast/adapters/gocron"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/rlock"
)

// Each machine runs this; the report is made on one of them.
func Example() {
	client, end := adaptertest.ForExample() // as holdfast.New makes one for each process
	defer end()

	locker := holdfastgocron.NewLocker(func(name string) holdfast.Locker {
		return rlock.New(client, "jobs:"+name)
	}, holdfast.HoldAtLeast(time.Minute))
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		fmt.Println(err)
		return
	}

	done := make(chan struct{})
	report := func(context.Context) error { // its context ends if the lock is lost
		fmt.Println("the report is made")
		close(done)
		return nil
	}
	_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
		gocron.NewTask(locker.Task("report", report)), gocron.WithName("report"))
	if err != nil {
		fmt.Println(err)
		return
	}
	scheduler.Start()
	<-done
	fmt.Println(scheduler.Shutdown())
	// Output:
	// the report is made
	// <nil>
}
