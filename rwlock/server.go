package rwlock

import (
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/kind"
)

// server is the one server that grants one side of a lock.
type server struct {
	engine.Backend
	shared bool // several owners may have this side at once
}

var _ engine.Backend = (*server)(nil)

// newSide makes one side of a lock. Errors in the arguments are returned by the first operation.
func newSide(c *engine.Client, p kind.Protocol, shared bool, opts []engine.Option) *engine.Lock {
	b := engine.NewLock(c, p, opts...)
	if b.Err == nil {
		b.Use(&server{b.Backend(), shared})
	}
	return b
}

// Traits is [engine.Backend.Traits].
func (s *server) Traits() engine.Traits {
	t := s.Backend.Traits()
	if t.Shared, t.Together = s.shared, s.shared; !s.shared {
		t.Upgrade = ErrUpgrade
	}
	return t
}

// Check is [engine.Backend.Check].
func (s *server) Check(cfg *engine.Settings) error {
	if d := cfg.AtLeast(); d > 0 && s.shared {
		return errs.Invalid("HoldAtLeast is %v; readers keep nobody out for longer than they read, use it with Lock only", d)
	}
	return s.Backend.Check(cfg)
}
