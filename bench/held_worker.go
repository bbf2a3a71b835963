package main

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
)

// held holds Count names and watches how well they are renewed, for two thirds of a lease: two
// renewals of each.
func (w *worker) held(ctx context.Context) (*result, error) {
	c, ok := w.clients[0].(holdfastClient)
	if !ok {
		return nil, errors.New("only Holdfast's holds can be asked about their deadlines")
	}
	lease := w.Lease
	if lease == 0 {
		lease = holdfast.DefaultLease
	}
	holds, err := w.take(ctx, c)
	if err != nil {
		return nil, err
	}
	if _, err := w.begin(); err != nil {
		return nil, err
	}
	scripts, err := scriptsRun(ctx, c.rdb)
	if err != nil {
		return nil, err
	}
	began, least, most := time.Now(), time.Duration(math.MaxInt64), 0
	for time.Since(began) < lease*2/3 && ctx.Err() == nil {
		least = min(least, leastTrust(holds))
		most = max(most, runtime.NumGoroutine())
		pause(ctx, 200*time.Millisecond)
	}
	took := time.Since(began).Seconds()
	after, err := scriptsRun(ctx, c.rdb)
	if err != nil {
		return nil, err
	}
	r := &result{Entries: int64(len(holds)), Values: map[string]float64{
		metricScriptRate: (after - scripts) / took,
		metricLeastTrust: least.Seconds() / lease.Seconds(),
		metricGoroutines: float64(most),
	}}
	for _, h := range holds {
		if err := context.Cause(h.Context()); err != nil {
			r.Errors, r.Error = r.Errors+1, err.Error()
		}
	}
	return r, nil
}

// take locks all names, with as many goroutines as the worker has.
func (w *worker) take(ctx context.Context, c holdfastClient) ([]*holdfast.Hold, error) {
	holds := make([]*holdfast.Hold, w.Count)
	var group errgroup.Group // without a context of its own, which would end before the holds that derive from it
	for g := range w.Goroutines {
		group.Go(func() (err error) {
			for i := g; i < len(holds) && err == nil; i += w.Goroutines {
				holds[i], err = c.kind(c.client, w.Name+":"+strconv.Itoa(i)).Lock(ctx)
			}
			return err
		})
	}
	return holds, group.Wait()
}

// leastTrust is how long the hold that is worst off may still be trusted.
func leastTrust(holds []*holdfast.Hold) time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, h := range holds {
		least = min(least, time.Until(h.Deadline()))
	}
	return least
}
