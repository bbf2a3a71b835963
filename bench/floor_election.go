package main

import (
	"context"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// floorElection is what an election cannot do without: a resignation hands the name to the first in
// a queue and tells it by a message, and the successor writes who it is. Nobody has a lease, so one
// that dies leads for ever.
type floorElection struct {
	rdb  *redis.Client
	id   string // the client's, and its channel
	sub  *redis.PubSub
	told sync.WaitGroup // for the goroutine that listens

	mu      sync.Mutex
	last    int                      // guarded by mu
	waiting map[string]chan struct{} // by candidate, closed when it leads; guarded by mu
}

// The keys of both: who leads, and the queue.
var (
	floorCampaign = redis.NewScript(`if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 60000) then return 1 end
		redis.call('RPUSH', KEYS[2], ARGV[1]) redis.call('PEXPIRE', KEYS[2], 60000) return 0`)
	floorResign = redis.NewScript(`local next = redis.call('LPOP', KEYS[2])
		if not next then return redis.call('DEL', KEYS[1]) end
		redis.call('SET', KEYS[1], next, 'PX', 60000)
		return redis.call('PUBLISH', string.match(next, '^[^/]+'), next)`)
)

func openFloorElection(j job) (client, error) {
	c := &floorElection{rdb: redis.NewClient(&redis.Options{Addr: j.Addr}),
		id: "floor:" + strconv.Itoa(j.Process) + ":" + strconv.FormatInt(now(), 36), waiting: map[string]chan struct{}{}}
	c.sub = c.rdb.Subscribe(context.Background(), c.id)
	if _, err := c.sub.Receive(context.Background()); err != nil { // confirmed
		return nil, err
	}
	c.told.Go(func() {
		for m := range c.sub.Channel() { // until close
			c.mu.Lock()
			if lead := c.waiting[m.Payload]; lead != nil {
				close(lead)
				delete(c.waiting, m.Payload)
			}
			c.mu.Unlock()
		}
	})
	return c, nil
}

func (c *floorElection) locker(_ context.Context, name string) (locker, error) {
	keys := []string{name, name + ":queue"}
	return func(ctx context.Context) (func() error, uint64, error) {
		me, lead := c.candidate()
		leads, err := floorCampaign.Run(ctx, c.rdb, keys, me).Int()
		if err != nil {
			return nil, 0, err
		}
		if leads == 0 {
			select {
			case <-lead:
			case <-ctx.Done():
				return nil, 0, context.Cause(ctx)
			}
		}
		if err := c.rdb.SetArgs(ctx, name+":leader", me, redis.SetArgs{TTL: floorStay}).Err(); err != nil {
			return nil, 0, err
		}
		return func() error { return floorResign.Run(context.Background(), c.rdb, keys).Err() }, 0, nil
	}, nil
}

func (c *floorElection) candidate() (me string, lead chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	me, lead = c.id+"/"+strconv.Itoa(c.last), make(chan struct{})
	c.waiting[me] = lead
	return me, lead
}

func (c *floorElection) close() error {
	err := c.sub.Close()
	c.told.Wait()
	if closeErr := c.rdb.Close(); err == nil {
		err = closeErr
	}
	return err
}
