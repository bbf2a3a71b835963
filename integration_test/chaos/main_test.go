// Package chaos runs many client processes on real servers while faults are drawn at random, and checks the history of all that
// they did (package history). One seed decides the faults and what the clients try; who is first is up to the machine, so the
// same seed leads to similar runs and not to the same one.
//
// The clients are this test binary again, as processes of their own (client_test.go), each behind fault proxies of its own. A
// run is a storm, in which the faults happen, and then a calm, in which everything must find its way back.
//
// Not here: what the library says it does not protect from (lost data, failovers that lose writes,
// clocks that jump). Those have tests of their own.
package chaos

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) {
	if !asClient() {
		redistest.Main(m)
	}
}
