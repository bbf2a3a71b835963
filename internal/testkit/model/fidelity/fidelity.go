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
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
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

// Like fails if the model differs from the scripts, or if the histories of the levels quick and all never
// met a branch.
func Like[D any](t *testing.T, of string, size Size, begin Model[D], rdb *redis.Client, branches ...string) {
	var none D
	seen, how := compare(t, rdb, level.Seed(t), size, begin, none)
	require.Empty(t, how)
	t.Logf("proof: %s: %d steps are like the scripts': %v", of, size.Histories*size.Length, seen)
	if missing := unmet(seen, branches); level.Soaking() || os.Getenv(level.SeedEnv) != "" {
		t.Logf("by this seed there was none of %v", missing)
	} else {
		require.Empty(t, missing, "never compared")
	}
}

// Unlike is the control: it fails if a model that differs in one rule is not told from the scripts. Its
// histories are the same in all levels, since some differences are seldom met.
func Unlike[D any](t *testing.T, size Size, begin Model[D], rdb *redis.Client, rules map[string]D) {
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		t.Run(rule, func(t *testing.T) {
			_, how := compare(t, rdb, 0, size, begin, rules[rule])
			require.NotEmpty(t, how, "no difference was found")
		})
	}
}

// compare runs histories until one differs, and says how. seen is how often each branch was met.
func compare[D any](tb testing.TB, rdb *redis.Client, seed uint64, size Size, begin Model[D], off D) (
	seen map[string]int, how string,
) {
	seen = map[string]int{}
	for h := range size.Histories {
		s := newSide(tb, rdb, seed, h)
		history := begin(s, off)
		for i := 0; i < size.Length && how == ""; i++ {
			branch := history.Step()
			seen[branch]++
			s.steps = append(s.steps, branch)
			if how = history.Difference(); how != "" {
				how = fmt.Sprintf("history %d: %v: %s", h, s.steps, how)
			}
		}
		if history.End(); how != "" {
			return seen, how
		}
	}
	return seen, ""
}

func unmet(seen map[string]int, branches []string) []string {
	return slices.DeleteFunc(slices.Clone(branches), func(branch string) bool { return seen[branch] > 0 })
}

// Server is a client of a real server.
func Server(t *testing.T) *redis.Client { return redistest.Shared(t).Client(t) }

func newSide(tb testing.TB, rdb *redis.Client, seed uint64, history int) *Side {
	h := uint64(history) //nolint:gosec // not negative
	return &Side{
		T: tb, RDB: rdb, Rnd: rand.New(rand.NewPCG(seed, h)), //nolint:gosec // for tests
		Name: tb.Name() + strconv.FormatUint(h, 36), real: map[uint8]int64{},
	}
}
