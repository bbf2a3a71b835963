// Package fidelity ties the server's half of a model to the real scripts: it runs random histories of
// commands, of time and of what operators do on both, side by side, and compares every reply, every
// message and all keys after every step. It is for tests.
//
// The histories of the levels quick and all are always the same, and a list says which branches they
// must have met. A control changes a rule of the model, and the difference has to be found.
//
// Time is that of the model: a tick is longer than any test, and passes when the history says so, by
// taking it off all times to live. Tokens are made of the server's clock, so they are compared one for
// one: which of the server's is which of the model's, and whether they are in the same order.
//
// Not promised: anything about branches that no list names, nor about the clients' half of a model.
package fidelity

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// History is one random history. A model has a type for it, which has its server's half and a [Side].
type History interface {
	// Step takes a random step on both sides, and says which branch that was.
	Step() (branch string)
	// Difference says how the sides differ, "" if they do not.
	Difference() string
	// End leaves nothing behind.
	End()
}

// Model begins a history. off are the rules that the model does not keep, for a control.
type Model[D any] func(s *Side, off D) History

// Size is how many histories there are, and how many steps each has.
type Size struct{ Histories, Length int }

// Like fails if the model differs from the scripts, or if a branch was never met.
func Like[D any](t *testing.T, of string, size Size, begin Model[D], rdb *redis.Client, branches ...string) {
	seed := level.Seed(t)
	seen := map[string]int{}
	for h := range size.Histories {
		var none D
		s := newSide(t, rdb, seed, h)
		history := begin(s, none)
		for range size.Length {
			branch := history.Step()
			seen[branch]++
			s.note(branch)
			require.Empty(t, history.Difference(), "history %d: %v", h, s.steps)
		}
		history.End()
	}
	t.Logf("proof: %s: %d steps are like the scripts': %v", of, size.Histories*size.Length, seen)
	for _, branch := range branches {
		require.Positive(t, seen[branch], "%q was never compared: %v", branch, seen)
	}
}

// Unlike is the control: it fails if a model that differs in one rule is not told from the scripts. Its
// histories are the same in all levels, since some differences are seldom met.
func Unlike[D any](t *testing.T, size Size, begin Model[D], rdb *redis.Client, rules map[string]D) {
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		t.Run(rule, func(t *testing.T) {
			for h := range size.Histories {
				if s := newSide(t, rdb, 0, h); differs(s, begin(s, rules[rule]), size.Length) {
					return
				}
			}
			t.Error("no difference was found")
		})
	}
}

func differs(s *Side, h History, length int) bool {
	defer h.End()
	for range length {
		s.note(h.Step())
		if h.Difference() != "" {
			return true
		}
	}
	return false
}

// Server is a client of a real server.
func Server(t *testing.T) *redis.Client { return redistest.Shared(t).Client(t) }

func newSide(t *testing.T, rdb *redis.Client, seed uint64, history int) *Side {
	h := uint64(history) //nolint:gosec // not negative
	return &Side{
		T: t, RDB: rdb, Rnd: rand.New(rand.NewPCG(seed, h)), //nolint:gosec // for tests
		Name: t.Name() + strconv.FormatUint(h, 36), real: map[uint8]int64{},
	}
}
