package holdfastweb

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The parts of Options.Share. What somebody asks for by hand has one of its own, so that a list of a
// million keys keeps nobody from the page of one lock.
const (
	ofList     = 0.5  // going through all keys
	ofRows     = 0.15 // the rows that somebody looks at
	ofSingle   = 0.15 // pages of single locks
	ofSearches = 0.2  // going through all keys for circles of waits, and reading what clients say
)

// pause is for how long nothing is asked after something that took a while. A server works for us no
// longer than we wait for it, so that this share of the time is an upper bound. (Rejected: to read the
// server's own account, INFO commandstats. It has everybody's commands, and needs a permission.)
func pause(took time.Duration, share float64) time.Duration {
	return time.Duration(float64(took) * (1/share - 1))
}

// purse lets short work through at once, and keeps it to a share of the time: it holds time that may be
// spent, and is filled as time goes by.
type purse struct {
	share float64
	full  time.Duration
	turn  chan struct{} // holds one while somebody asks, so that many who come at once spend no more than one

	mu   sync.Mutex // guards the rest; nobody holds it while asking
	left time.Duration
	as   time.Time // of when left is
}

func newPurse(share float64, full time.Duration) *purse {
	return &purse{share: share, full: full, turn: make(chan struct{}, 1), left: full, as: time.Now()}
}

// do waits until there is something in the purse, calls f, and takes out what that took.
func (p *purse) do(ctx context.Context, f func() error) error {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := sleep(ctx, p.empty()); err != nil {
		return err
	}
	from := time.Now()
	err := f()
	if err == nil || answered(err) { // a server that is silent does not work for us
		p.mu.Lock()
		p.left -= time.Since(from)
		p.mu.Unlock()
	}
	return err
}

// empty is for how long there is nothing in the purse.
func (p *purse) empty() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.left = min(p.full, p.left+time.Duration(float64(now.Sub(p.as))*p.share))
	p.as = now
	if p.left > 0 {
		return 0
	}
	return time.Duration(float64(-p.left)/p.share) + time.Millisecond
}

// answered reports whether an error is a server's word.
func answered(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// sleep returns early, with its cause, when ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
