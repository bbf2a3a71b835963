package main

import (
	"cmp"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncapi "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// redsyncQuorum is redsync with a pool for each master.
type redsyncQuorum struct {
	redsyncClient
	rdbs []*redis.Client
}

// openRedsyncQuorum leaves its pauses between tries as they are, 50 to 250 ms at random, in its
// favour: with 1 ms, as it has with one pool, 64 goroutines do little else than to split votes;
// redsync-5-1ms shows it. Its default waits for an answer of every master; with fail-fast it goes
// on at the majority, and its unlock may then overtake a SET that is still on its way, whose key
// stands for a lease.
func openRedsyncQuorum(opts ...redsync.Option) func(job) (client, error) {
	return func(j job) (client, error) {
		c := redsyncQuorum{redsyncClient: redsyncClient{lease: cmp.Or(j.Lease, 8*time.Second), opts: opts}}
		pools := make([]redsyncapi.Pool, 0, len(j.Masters))
		for _, addr := range j.Masters {
			rdb := redis.NewClient(&redis.Options{Addr: addr})
			c.rdbs, pools = append(c.rdbs, rdb), append(pools, redsyncgoredis.NewPool(rdb))
		}
		c.rs = redsync.New(pools...)
		return c, nil
	}
}

func (c redsyncQuorum) close() (err error) {
	for _, rdb := range c.rdbs {
		err = errors.Join(err, rdb.Close())
	}
	return err
}

// openRueidislockKeys takes a majority of five keys on the one deployment that it is given. It has
// no other quorum: its client refuses five addresses that are no cluster. So it is measured on the
// first of the masters, which is in its favour.
func openRueidislockKeys(j job) (client, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{j.Addr}},
		KeyMajority:    masterCount/2 + 1,
		NoLoopTracking: true,
		KeyValidity:    j.Lease, // 0: its default
	})
	if err != nil {
		return nil, err
	}
	return rueidislockClient{locks}, nil
}
