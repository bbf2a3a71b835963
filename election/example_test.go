package election_test

import (
	"context"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// example runs f with a client on a Redis server of its own.
func example(f func(ctx context.Context, client *holdfast.Client) error) {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.ForExample()})
	defer rdb.Close()
	client, err := holdfast.New(rdb, nil)
	if err == nil {
		defer client.Close(ctx)
		err = f(ctx, client)
	}
	if err != nil {
		fmt.Fprintln(os.Stdout, "error:", err)
	}
}

// One process at a time does the work. The others wait, and the next one goes on if it dies.
func ExampleElection_Run() {
	example(func(ctx context.Context, client *holdfast.Client) error {
		e := election.New(client, "billing")
		return e.Run(ctx, "10.0.0.7:8080", func(ctx context.Context) error {
			leader, err := e.Leader(ctx)
			fmt.Println("leading as", leader.Value)
			return err // ctx ends when the leadership does
		})
	})
	// Output: leading as 10.0.0.7:8080
}

// Anybody can follow who leads.
func ExampleElection_Observe() {
	example(func(ctx context.Context, client *holdfast.Client) error {
		e := election.New(client, "billing")
		hold, err := e.Campaign(ctx, "10.0.0.7:8080")
		if err != nil {
			return err
		}
		for leader, err := range e.Observe(ctx) {
			switch {
			case err != nil:
				return err
			case leader == election.Leader{}:
				fmt.Println("nobody leads")
				return nil
			}
			fmt.Println(leader.Value, "leads")
			if err := hold.Unlock(ctx); err != nil { // resigns
				return err
			}
		}
		return nil
	})
	// Output:
	// 10.0.0.7:8080 leads
	// nobody leads
}
