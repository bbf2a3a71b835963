// Package fidelity tests that the server half of a model behaves like the real scripts. It runs random
// histories on both, side by side: commands, time that passes, and what operators do. It compares every
// reply, every message and all keys after every step.
//
// In the levels quick and all the histories are always the same, and a list names the branches that they
// must reach. A control changes one rule of the model; then the histories must find a difference.
//
// Time is that of the model. A tick is longer than any test. When a history lets a tick pass, it takes a
// tick off every time to live at the server. The server makes tokens of its clock, so their values differ
// from the model's: tokens are compared one for one, and by their order.
//
// Not promised: anything about branches that no list names, nor about the client half of a model.
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

// History is one random history. A model's type for it contains the model's server half and a [Side].
type History interface {
	// Step takes a random step on both sides, and returns the name of the branch.
	Step() (branch string)
	// Difference says how the two sides differ; "" if they do not.
	Difference() string
	// End deletes all keys and ends subscriptions.
	End()
}

// Model begins a history. off is the set of rules that a control switches off in the model.
type Model[D any] func(s *Side, off D) History

// Size is the number of histories, and the number of steps of each.
type Size struct{ Histories, Length int }

// Like fails if the model differs from the scripts. In the levels quick and all it also fails if no
// history reached one of the branches.
func Like[D any](t *testing.T, of string, size Size, begin Model[D], rdb *redis.Client, branches ...string) {
	var none D
	seen, how := compare(t, rdb, level.Seed(t), size, begin, none)
	require.Empty(t, how)
	t.Logf("proof: %s: %d steps are like the scripts': %v", of, size.Histories*size.Length, seen)
	if missing := unmet(seen, branches); level.Soaking() || os.Getenv(level.SeedEnv) != "" {
		t.Logf("this seed reached none of %v", missing)
	} else {
		require.Empty(t, missing, "never compared")
	}
}

// Unlike is the control. It fails if the histories find no difference after one rule of the model was
// switched off. They are the same in all levels, because random ones may miss a rare difference.
func Unlike[D any](t *testing.T, size Size, begin Model[D], rdb *redis.Client, rules map[string]D) {
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		t.Run(rule, func(t *testing.T) {
			_, how := compare(t, rdb, controls, size, begin, rules[rule])
			require.NotEmpty(t, how, "no difference was found")
		})
	}
}

// controls is the seed of [Unlike]. With it the rarest difference, that of a rule of package permits, comes early.
const controls = 3

// compare runs histories until it finds a difference. seen counts how often they reached each branch.
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

// Server returns a client of a real server.
func Server(t *testing.T) *redis.Client { return redistest.Shared(t).Client(t) }

func newSide(tb testing.TB, rdb *redis.Client, seed uint64, history int) *Side {
	h := uint64(history) //nolint:gosec // not negative
	return &Side{
		T: tb, RDB: rdb, Rnd: rand.New(rand.NewPCG(seed, h)), //nolint:gosec // for tests
		Name: tb.Name() + strconv.FormatUint(h, 36), real: map[uint8]int64{},
	}
}
