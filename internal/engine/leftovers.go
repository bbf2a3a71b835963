package engine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// leftovers counts the locks that Close could not release.
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
	why := l.why
	if errors.Is(why, redis.ErrClosed) && !errors.Is(why, remote.ErrCloseOrder) {
		why = errs.Both(remote.ErrCloseOrder, why)
	}
	return fmt.Errorf("%d locks may be left in Redis until their leases end: %w", l.locks, printable.Error(why))
}
