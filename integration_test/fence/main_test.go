// Package fence_test tests the guards of package fence on real stores: PostgreSQL, SQLite and
// Redis, with holders that come too late.
//
// Not here: what the guard's script replies on each version of Redis; that is beside the other
// scripts.
package fence_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// patience is how long a test waits for what must come, on however busy a machine.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	if job := os.Getenv(writerEnv); job != "" {
		if err := write(job); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	redistest.Main(m)
}
