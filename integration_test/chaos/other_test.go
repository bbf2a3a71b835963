//go:build !linux

package chaos

import (
	"os"
	"testing"
)

func asClient() bool { return false }

// TestChaos needs a clock that all processes share, and children that die with their parent.
func TestChaos(t *testing.T) {
	const why = "CHAOS NOT RUN: it needs Linux"
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}
