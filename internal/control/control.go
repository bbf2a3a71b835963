// Package control switches single defences of the library off, so that a test can show that the fault it injects is real:
// with the defence off, the same test must fail.
//
// It is for tests alone. A switch is global to the process, so tests that use one do not run in parallel with others; it
// is read only where the library deals with a fault already, never on the way of a lock that is simply taken.
package control

import "sync/atomic"

// Switch is one defence.
type Switch struct{ off atomic.Bool }

// The defences that can be switched off.
var (
	Undo         Switch // an acquisition that its caller left is given back
	Detach       Switch // Unlock is sent although its context is cancelled
	RepeatedGone Switch // a release that finds nothing, after one that got no answer, is a success
	Resend       Switch // an operation without an answer is sent again
)

// Off tells whether the defence is switched off.
func (s *Switch) Off() bool { return s.off.Load() }

// Without switches the defence off and returns the function that switches it on again.
func (s *Switch) Without() (restore func()) {
	s.off.Store(true)
	return func() { s.off.Store(false) }
}
