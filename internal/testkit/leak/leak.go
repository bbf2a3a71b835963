// Package leak gives every package of the module the same TestMain: it fails when a test leaves a goroutine behind. It does not
// look for keys or connections; the tests that make them do that themselves.
package leak

import (
	"log"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main runs the tests of a package and ends the process with their exit code, or with 1 when goroutines are left.
func Main(m *testing.M) {
	Quiet()
	goleak.VerifyTestMain(patient{m})
}

// patient are tests after which goroutines have a second more to end. Where a server refuses connections, go-redis dials again once
// a second, and notices only then that its client has been closed.
type patient struct{ *testing.M }

// Run is of goleak.TestingM.
func (p patient) Run() int {
	code := p.M.Run()
	for end := time.Now().Add(2 * time.Second); goleak.Find() != nil && time.Now().Before(end); {
	}
	return code
}

// Together calls a function in n goroutines at once, which are numbered from 0, and waits for all of them.
func Together(n int, do func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { do(i) })
	}
	group.Wait()
}

// Quiet discards what clients without a Logger log, as tests lose locks on purpose. Package log prints as before.
func Quiet() {
	to, flags := log.Writer(), log.Flags()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	log.SetOutput(to) // SetDefault has turned it to the handler
	log.SetFlags(flags)
}
