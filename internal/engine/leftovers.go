package engine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
)

// leftovers are the locks that Close could not release.
type leftovers struct {
	mu    sync.Mutex // guards the rest
	locks int
	why   error // of one of them
}

func (l *leftovers) add(locks int, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.locks += locks
	l.why = why
}

func (l *leftovers) error() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.locks == 0 {
		return nil
	}
	remedy := ""
	if errors.Is(l.why, redis.ErrClosed) {
		remedy = "; close this client before the one of go-redis"
	}
	return fmt.Errorf("%d locks may be left in Redis until their leases end%s: %w", l.locks, remedy, l.why)
}
