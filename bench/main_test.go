package main

import (
	"context"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestMain makes workers of this binary as main does of the program, with two locks more, which do
// not lock.
func TestMain(m *testing.M) {
	contenders = append(contenders, contender{name: "broken", group: own, open: openBroken},
		contender{name: "minority", group: own, open: openMinority, needs: needMasters},
		contender{name: "broken-writer", group: own, kind: aReadWrite, open: openBroken},
		contender{name: "broken-semaphore", group: own, kind: aSemaphore, open: openBroken},
		contender{name: "broken-latch", group: own, kind: aLatch, open: openBroken})
	if len(os.Args) > 1 && os.Args[1] == workerArg {
		os.Exit(workerMain())
	}
	redistest.Main(m)
}

// openMinority is the floor on several masters that is content with two votes of five.
func openMinority(j job) (client, error) { return newQuorumFloor(j, 2), nil }

// brokenClient is the control: it lets everybody in and gives everybody the same token.
type brokenClient struct{}

func openBroken(job) (client, error) { return brokenClient{}, nil }

func (brokenClient) locker(context.Context, string) (locker, error) {
	return func(context.Context) (func() error, uint64, error) {
		return func() error { return nil }, 1, nil
	}, nil
}

// reader is [readable].
func (c brokenClient) reader(ctx context.Context, name string) (locker, error) {
	return c.locker(ctx, name)
}

func (brokenClient) set(context.Context, string, int) error { return nil }

func (brokenClient) countDown(context.Context, string) error { return nil }

func (brokenClient) wait(context.Context, string) error { return nil }

func (brokenClient) close() error { return nil }
