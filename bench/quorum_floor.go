package main

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// After a lost vote the floor pauses for so long, at random, so that those who split the votes do
// not meet again. With 1 ms, as on one master, 64 goroutines do little else than to split votes;
// these two were the best of those tried.
const leastPause, mostPause = 20 * time.Millisecond, 100 * time.Millisecond

// quorumFloor is the floor on several masters: SET NX PX on all of them at once, held at the
// majority, compare-and-delete on all of them, poll. A goroutine per master and operation, because
// go-redis does not interrupt a read; its owner is the client, whose close joins them.
type quorumFloor struct {
	rdbs  []*redis.Client
	need  int // votes
	lease time.Duration
	id    string
	last  *atomic.Int64
	late  *sync.WaitGroup
}

func openFloorQuorum(j job) (client, error) { return newQuorumFloor(j, len(j.Masters)/2+1), nil }

func newQuorumFloor(j job, need int) quorumFloor {
	c := quorumFloor{need: need, lease: cmp.Or(j.Lease, 30*time.Second), last: new(atomic.Int64),
		late: new(sync.WaitGroup)}
	c.id = strconv.Itoa(j.Process) + ":" + strconv.FormatInt(now(), 36) + ":"
	for _, addr := range j.Masters {
		c.rdbs = append(c.rdbs, redis.NewClient(&redis.Options{Addr: addr}))
	}
	return c
}

func (c quorumFloor) locker(_ context.Context, name string) (locker, error) {
	return func(ctx context.Context) (func() error, uint64, error) {
		for {
			b := c.vote(name)
			if b.held {
				return func() error { return c.unlock(b) }, 0, nil
			}
			if err := c.withdraw(b); err != nil {
				return nil, 0, err
			}
			if pause(ctx, leastPause+rand.N(mostPause-leastPause)); ctx.Err() != nil { //nolint:gosec // spreads load
				return nil, 0, context.Cause(ctx)
			}
		}
	}, nil
}

// ballot is one try: what each master said, as soon as its channel is closed.
type ballot struct {
	name, owner string
	answered    []chan struct{}
	errs        []error // redis.Nil: somebody else has it there
	held        bool
}

// vote returns as soon as the outcome is sure. Those that have not answered by then are waited for
// before theirs is taken back.
func (c quorumFloor) vote(name string) *ballot {
	n := len(c.rdbs)
	b := &ballot{name: name, owner: c.id + strconv.FormatInt(c.last.Add(1), 36), answered: make([]chan struct{}, n),
		errs: make([]error, n)}
	votes := make(chan bool, n)
	for i, rdb := range c.rdbs {
		b.answered[i] = make(chan struct{})
		c.late.Go(func() {
			b.errs[i] = rdb.SetArgs(context.Background(), name, b.owner, redis.SetArgs{Mode: "NX", TTL: c.lease}).Err()
			close(b.answered[i])
			votes <- b.errs[i] == nil
		})
	}
	b.held = reached(votes, n, c.need)
	return b
}

// release takes all votes back; the channel says of each master, as it answers, whether a vote was
// there. On each it comes after the vote: what overtook it would leave a key behind for a lease,
// and some of these leave no majority.
func (c quorumFloor) release(b *ballot) <-chan bool {
	gone := make(chan bool, len(c.rdbs))
	for i, rdb := range c.rdbs {
		c.late.Go(func() {
			<-b.answered[i]
			deleted := 0
			if !errors.Is(b.errs[i], redis.Nil) { // also where it is unknown
				// failed: not deleted
				deleted, _ = compareAndDelete.Run(context.Background(), rdb, []string{b.name}, b.owner).Int()
			}
			gone <- deleted > 0
		})
	}
	return gone
}

// withdraw takes a vote back that was not won, and waits for that, so that it is not in the way of
// the next one. Its error is that too few masters could be asked.
func (c quorumFloor) withdraw(b *ballot) error {
	gone := c.release(b)
	for range c.rdbs {
		<-gone
	}
	asked := 0
	for _, err := range b.errs {
		if err == nil || errors.Is(err, redis.Nil) {
			asked++
		}
	}
	if asked >= c.need {
		return nil
	}
	return errors.Join(b.errs...)
}

func (c quorumFloor) unlock(b *ballot) error {
	if !reached(c.release(b), len(c.rdbs), c.need) {
		return errNotOurs
	}
	return nil
}

// reached says whether enough of n answers are yes, as soon as that is sure.
func reached(answers <-chan bool, n, need int) bool {
	yes, no := 0, 0
	for yes < need && no <= n-need {
		if <-answers {
			yes++
		} else {
			no++
		}
	}
	return yes >= need
}

func (c quorumFloor) close() (err error) {
	c.late.Wait()
	for _, rdb := range c.rdbs {
		err = errors.Join(err, rdb.Close())
	}
	return err
}
