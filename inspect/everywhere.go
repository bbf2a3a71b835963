package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/panics"
)

// missedError is that some masters of a cluster have not told all they have.
type missedError struct {
	servers []string
	err     error // of the first one
}

func (e *missedError) Error() string { return fmt.Sprintf("%s: %v", e.servers[0], e.err) }

func (e *missedError) Unwrap() error { return e.err }

// Missed returns the addresses of the masters of a cluster whose locks are missing, at least in part,
// according to an error of [Inspector.Locks]. The locks of the others are complete. Missed returns
// none if the error says nothing of that. [Lock.Server] has such an address.
func Missed(err error) []string {
	var missed *missedError
	if !errors.As(err, &missed) {
		return nil
	}
	return slices.Clone(missed.servers)
}

// everywhere goes over the keys of all masters of a cluster at the same time. Each master has a goroutine, which
// passes what it finds to the one that iterates, one round trip at a time.
//
// Which masters there are is asked, too, and who is asked may be the silent one. So those that were known
// before are asked at once, and those that are new when it is known.
func (w *walk) everywhere(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	parts := make(chan []Lock)
	var mu sync.Mutex // guards the next two
	failed, started := make(map[string]error), make(map[string]bool)
	begin := func(nodes []*redis.Client) {
		for _, node := range nodes {
			addr := node.Options().Addr
			if started[addr] {
				continue
			}
			started[addr] = true
			group.Go(func() {
				err := w.part(ctx, node, parts)
				mu.Lock()
				defer mu.Unlock()
				failed[addr] = err
			})
		}
	}
	if known := w.known.Load(); known != nil {
		begin(*known)
	}
	var masters []*redis.Client
	var unknown error
	group.Go(func() {
		defer panics.Into(&unknown)
		masters, unknown = w.masters(ctx)
		if unknown == nil && len(masters) > 0 {
			w.known.Store(&masters)
			mu.Lock()
			defer mu.Unlock()
			begin(masters)
		}
	})
	go func() { group.Wait(); close(parts) }()
	for locks := range parts {
		if w.over {
			continue
		}
		if w.yieldAll(locks); locks == nil && w.Answered != nil {
			w.Answered()
		}
		if w.over {
			cancel()
		}
	}
	if unknown != nil || w.over {
		return unknown
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	missed := &missedError{}
	for _, node := range masters { // what another node said is of no matter, if it is no master any more
		addr := node.Options().Addr
		if err := failed[addr]; err != nil {
			missed.servers = append(missed.servers, addr)
			if missed.err == nil {
				missed.err = err
			}
		}
	}
	if len(missed.servers) == 0 {
		return nil
	}
	return missed
}

// part goes over the keys of one master.
func (w *walk) part(ctx context.Context, node *redis.Client, parts chan<- []Lock) (err error) {
	defer panics.Into(&err) // of a hook of go-redis: here nobody else would take it
	own := *w
	own.over = false
	own.deliver = func(locks []Lock) bool {
		select {
		case parts <- locks:
			return true
		case <-ctx.Done():
			return false
		}
	}
	if err = own.master(ctx, node); err == nil && own.over {
		err = context.Cause(ctx)
	}
	return err
}

const (
	// extrasWithin is how long a node of a cluster has to answer for extras, such as labels.
	extrasWithin = time.Second
	// muteFor is for how long a node that did not answer in time is not asked for extras.
	muteFor = 10 * time.Second
)

// askExtras asks several nodes of a cluster at the same time for extras. A silent node delays the locks of the
// others by a second, once in a while. It reports whether all have answered.
func (i *Inspector) askExtras(ctx context.Context, nodes []*redis.Client, ask func(n int, node *redis.Client) error) (all bool) {
	errs := make([]error, len(nodes))
	var group sync.WaitGroup
	for n, node := range nodes {
		addr := node.Options().Addr
		if until, is := i.mute.Load(addr); is && time.Now().Before(until.(time.Time)) {
			errs[n] = errors.New("it was silent")
			continue
		}
		group.Go(func() {
			defer panics.Into(&errs[n])
			errs[n] = ask(n, node.WithTimeout(within(node)))
			if errs[n] != nil && !isReply(errs[n]) && ctx.Err() == nil {
				i.mute.Store(addr, time.Now().Add(muteFor))
				return
			}
			i.mute.Delete(addr)
		})
	}
	group.Wait()
	return !slices.ContainsFunc(errs, func(err error) bool { return err != nil })
}

// within is what a node has for it: no more than its client gives it for anything.
func within(node *redis.Client) time.Duration {
	if d := node.Options().ReadTimeout; d > 0 {
		return min(d, extrasWithin)
	}
	return extrasWithin
}
