package main

import (
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/internal/told"
)

// openObserved is rlock with an observer that counts all there is, as metrics do. What it costs is the
// library's part: to measure times, to make events, and to tell them aside.
func openObserved(j job) (client, error) {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	c, err := holdfast.New(rdb, &holdfast.Options{Lease: j.Lease, Logger: silent, Observer: new(told.Counters).Observer()})
	if err != nil {
		return nil, err
	}
	return holdfastClient{c, rdb, rlockKind}, nil
}
