package redisson

import (
	"flag"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) {
	if Idle() || dies() {
		return
	}
	_ = flag.Set("test.parallel", "12") // they mostly wait
	redistest.Main(withWorker{m})
}

// withWorker stops the shared worker after the tests.
type withWorker struct{ m *testing.M }

// Run is called by redistest.Main.
func (w withWorker) Run() int {
	defer StopShared()
	return w.m.Run()
}
