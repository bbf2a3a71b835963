package main

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

// openObserved is rlock with an observer that counts all there is, as metrics do. What it costs is the
// library's part: to measure times, to make events, and to tell them aside.
func openObserved(j job) (client, error) {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	c, err := holdfast.New(rdb, &holdfast.Options{Lease: j.Lease, Observer: newTelling().observer()})
	if err != nil {
		return nil, err
	}
	return holdfastClient{c, rdb, rlockKind}, nil
}

// telling is what an observer was told.
type telling struct {
	waits, grants, refusals, ends, renewals, scripts, dropped atomic.Int64
	waited, took                                              atomic.Int64 // nanoseconds
}

func newTelling() *telling { return &telling{} }

func (t *telling) observer() *holdfast.Observer {
	return &holdfast.Observer{
		Waiting: func(ctx context.Context, _ holdfast.WaitEvent) context.Context {
			t.waits.Add(1)
			return ctx
		},
		Granted: func(_ context.Context, e holdfast.GrantEvent) { t.grants.Add(1); t.waited.Add(int64(e.Waited)) },
		Refused: func(context.Context, holdfast.RefusalEvent) { t.refusals.Add(1) },
		Ended:   func(context.Context, holdfast.EndEvent) { t.ends.Add(1) },
		Renewed: func(holdfast.RenewalEvent) { t.renewals.Add(1) },
		Sent:    func(e holdfast.ScriptEvent) { t.scripts.Add(1); t.took.Add(int64(e.Took)) },
		Dropped: func(n int) { t.dropped.Add(int64(n)) },
	}
}
