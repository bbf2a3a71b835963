package holdfastwatermill_test

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/holdfast-go/holdfast"
	holdfastwatermill "github.com/holdfast-go/holdfast/adapters/watermill"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/rlock"
)

// Payments of one account are made one after another, by however many processes.
func Example() {
	ctx := context.Background()
	client, end := adaptertest.ForExample() // as holdfast.New makes one for each process
	defer end()
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		fmt.Println(err)
		return
	}
	broker := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})

	router.AddMiddleware(holdfastwatermill.New(func(msg *message.Message) holdfast.Locker {
		return rlock.New(client, "account:"+msg.Metadata.Get("account"))
	}))
	paid := make(chan string, 1)
	pay := func(msg *message.Message) error { // msg.Context() ends if the lock is lost
		paid <- msg.Metadata.Get("account")
		return msg.Context().Err()
	}
	router.AddConsumerHandler("pay", "payments", broker, pay)

	done := make(chan error, 1)
	go func() { done <- router.Run(ctx) }()
	<-router.Running()
	msg := message.NewMessage(watermill.NewUUID(), nil)
	msg.Metadata.Set("account", "42")
	if err := broker.Publish("payments", msg); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("paid from account", <-paid)
	fmt.Println(router.Close(), <-done, broker.Close())
	// Output:
	// paid from account 42
	// <nil> <nil> <nil>
}
