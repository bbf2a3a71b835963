package defence

import "sync/atomic"

var beforeRenewal atomic.Pointer[func()]

// BeforeRenewal is called by the watchdog before it sends a batch, a moment that a test can make in no other way.
func BeforeRenewal() {
	if f := beforeRenewal.Load(); f != nil {
		(*f)()
	}
}

// AtRenewal has f run in that moment.
func AtRenewal(t T, f func()) (restore func()) {
	Need(t)
	beforeRenewal.Store(&f)
	return func() { beforeRenewal.Store(nil) }
}
