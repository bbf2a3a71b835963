// Package peers_test has programs that use other locks, the same programs with Holdfast, and fleets in which
// both run: what docs/migrating.md says. The other libraries are the real ones.
//
// Not here: Redisson, which has a package of its own; and how fast the others are, which bench measures.
package peers_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// patience is how long a test waits for what must come, on however busy a machine.
const patience = time.Minute

func TestMain(m *testing.M) { redistest.Main(m) }
