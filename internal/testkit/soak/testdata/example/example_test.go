// Package example has tests for a soak to find, and others that it leaves alone.
package example

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

// TestFinds fails with each seed but the first, which is no seed of a soak.
func TestFinds(t *testing.T) {
	if draw(t) != 0 {
		t.Error("Error: found it")
	}
}

func TestPasses(t *testing.T) { level.ForSoak(t) }

func TestOfALevel(t *testing.T) {
	level.ForAll(t)
	_ = os.WriteFile("ran", nil, 0o600) // which a soak must not do
}

func TestPlain(*testing.T) {}

func draw(t *testing.T) uint64 { return level.Seed(t) }
