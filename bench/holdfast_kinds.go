package main

import (
	"context"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// readWriteClient is a client of Holdfast whose goroutines may also only read.
type readWriteClient struct{ holdfastClient }

func openReadWrite(j job) (client, error) {
	c, err := openHoldfast(func(c *holdfast.Client, name string) holdfast.Locker { return rwlock.New(c, name) })(j)
	if err != nil {
		return nil, err
	}
	return readWriteClient{c.(holdfastClient)}, nil
}

// reader is [readable].
func (c readWriteClient) reader(_ context.Context, name string) (locker, error) {
	return lockerOf(rwlock.New(c.client, name).RLocker()), nil
}

func openSemaphore(j job) (client, error) {
	return openHoldfast(func(c *holdfast.Client, name string) holdfast.Locker { return semaphore.New(c, name, j.Permits) })(j)
}

// electionKind is an election where to lead is to hold, and to resign is to unlock.
func electionKind(c *holdfast.Client, name string) holdfast.Locker {
	return candidate{election.New(c, name)}
}

type candidate struct{ *election.Election }

func (c candidate) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return c.Campaign(ctx, "10.0.0.7:8080", opts...)
}

// TryLock is for [holdfast.Locker]; nothing here tries.
func (c candidate) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return c.Lock(ctx, append(opts[:len(opts):len(opts)], holdfast.Wait(0))...)
}

// latchClient is a client of Holdfast that waits for latches.
type latchClient struct{ holdfastClient }

func openLatch(j job) (client, error) {
	c, err := openHoldfast(nil)(j)
	if err != nil {
		return nil, err
	}
	return latchClient{c.(holdfastClient)}, nil
}

func (latchClient) locker(context.Context, string) (locker, error) { return nil, errNoLock }

func (c latchClient) set(ctx context.Context, name string, count int) error {
	set, err := latch.New(c.client, name).Set(ctx, count)
	if err == nil && !set {
		return errLatchIsSet
	}
	return err
}

func (c latchClient) countDown(ctx context.Context, name string) error {
	_, err := latch.New(c.client, name).CountDown(ctx)
	return err
}

func (c latchClient) wait(ctx context.Context, name string) error {
	return latch.New(c.client, name).Wait(ctx)
}
