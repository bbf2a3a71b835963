package rwlock

import (
	"github.com/holdfast-go/holdfast/internal/engine"
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
	if t.Shared, t.Together = s.shared, s.shared; s.shared {
		t.NoAtLeast = "readers keep nobody out for longer than they read; give it to Lock only"
	} else {
		t.Upgrade = ErrUpgrade
	}
	return t
}
