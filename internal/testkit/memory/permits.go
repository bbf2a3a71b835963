package memory

import (
	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
)

// Permits is a lock by name in a [Server] that several may hold: each hold is a permit. It is the
// first user of two traits of the engine.
type Permits struct{ locker }

var _ holdfast.Locker = Permits{}

// NewPermits makes the lock called name on a client, of which there are n permits.
func NewPermits(c *holdfast.Client, s *Server, name string, n int, opts ...holdfast.Option) Permits {
	traits := engine.Traits{Shared: s.Flaw != Unshared, NoReentry: s.Flaw != Reenters}
	return Permits{newLocker(c, wire{of: "permits", name: name}, backend{server: s, permits: n, traits: traits}, opts)}
}
