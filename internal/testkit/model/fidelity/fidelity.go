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
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// History is one random history. A model's type for it contains the model's server half and a [Side].
type History interface {
	// Step takes a random step on both sides, and returns the name of the branch.
	Step() (branch string)
	// Expected returns the keys that the server must have. What it finds to differ beside them it notes.
	Expected() []Key
	// End deletes all keys and ends subscriptions.
	End()
}

// Model begins a history. off is the set of rules that a control switches off in the model.
type Model[D any] func(s *Side, off D) History

// Size is the number of histories, with -short if that is not 0, and the number of steps of each.
type Size struct{ Histories, Short, Length int }

// Like fails if the model differs from the scripts. In the levels quick and all it also fails if no
// history reached one of the branches.
//
// In the level all its controls follow, one for each of some rules: a control fails if the histories find no
// difference after the rule was switched off in the model. Their seed is fixed, because random histories may
// miss a rare difference.
func Like[D any](t *testing.T, of string, size Size, begin Model[D], rdb *redis.Client, branches []string,
	rules map[string]D,
) {
	if testing.Short() && size.Short > 0 {
		size.Histories = size.Short
	}
	var none D
	seen, how := compare(t, rdb, level.Seed(t), size, begin, none)
	require.Empty(t, how)
	t.Logf("proof: %s: %d steps are like the scripts': %v", of, size.Histories*size.Length, seen)
	if missing := unmet(seen, branches); level.Soaking() || os.Getenv(level.SeedEnv) != "" {
		t.Logf("this seed reached none of %v", missing)
	} else {
		require.Empty(t, missing, "never compared")
	}
	size.Histories = 400 // at most: the first difference is enough
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		t.Run(rule, func(t *testing.T) {
			level.ForAll(t)
			_, how := compare(t, rdb, controls, size, begin, rules[rule])
			require.NotEmpty(t, how, "no difference was found")
		})
	}
}

// controls is the seed of those. With it the rarest difference, that of a rule of package permits, comes early.
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
			if how = s.compare(history.Expected()...); how != "" {
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

// Tick is the length of a tick: far longer than a test, so that real time does not matter.
const Tick = 1000 * time.Second

// Side is the real side of a history: the server, and random numbers.
type Side struct {
	T    testing.TB
	RDB  *redis.Client
	Rnd  *rand.Rand
	Name string // of the lock

	ears  *redis.PubSub
	names []string        // of the keys that are compared
	real  map[uint8]int64 // what the model's tokens are at the server
	steps []string        // so far, for whoever has to understand a difference
	wrong string          // how the last reply, or message, differs
}

// Few returns a random number below n.
func (s *Side) Few(n int) uint8 { return uint8(s.Rnd.IntN(n)) } //nolint:gosec // a few

// Key returns the name of another key of the lock.
func (s *Side) Key(of string) string { return of + ":{" + s.Name + "}" }

// Millis returns a duration for a script. Rounded up it is a whole number of ticks. A later call returns a longer duration for
// the same number of ticks: otherwise it would depend on milliseconds which of two leases a script takes for the longer one.
func (s *Side) Millis(ticks uint8) int64 { return whole(ticks).Milliseconds() + 10*int64(len(s.steps)) }

func whole(ticks uint8) time.Duration { return time.Duration(ticks)*Tick - Tick/2 }

// Ticks returns a time to live in ticks, as go-redis returns it: -1 is endless.
func Ticks(left time.Duration) uint8 {
	switch {
	case left == -1:
		return model.Endless
	case left < 0:
		return 0
	}
	return uint8((left + Tick - 1) / Tick) //nolint:gosec // a few
}

// Differ notes a difference. Later ones are ignored.
func (s *Side) Differ(format string, args ...any) {
	if s.wrong == "" {
		s.wrong = fmt.Sprintf(format, args...)
	}
}

// Values of a reply or a key are of these types. Others are compared by their text.
type (
	// Token is one of the model; 0: none.
	Token uint8
	// Left is a number of ticks, in a reply as milliseconds.
	Left uint8
	// Till is a number of ticks, in a hash as "till" and a time of the server, ms.
	Till uint8
	// Other is any value.
	Other struct{}
)

// Excess is the status for the error that there are not so many permits.
const Excess lua.Status = 100

// Run runs a script and compares its reply with the model's: a status and values. It ignores further values of the real one.
func (s *Side) Run(what string, call lua.Call, status lua.Status, values ...any) (got lua.Reply) {
	got, err := lua.Run(s.T.Context(), s.RDB, call)
	if lua.IsError(err, "HOLDFAST_PERMITS") {
		got, err = lua.NewReply(Excess), nil
	}
	require.NoError(s.T, err)
	if got.Status != status {
		s.Differ("%s replied %+v, the model %d", what, got, status)
		return got
	}
	for i, want := range values {
		s.Same(what, want, got.Value(i))
	}
	return got
}

// Same compares a value with the one that the model expects.
func (s *Side) Same(what string, want, got any) {
	if !s.same(want, got) {
		s.Differ("%s said %v, the model %T %v", what, got, want, want)
	}
}

// same reports whether a value is the one that the model expects.
func (s *Side) same(want, got any) bool {
	switch want := want.(type) {
	case Other:
		return true
	case Token:
		text, _ := got.(string)
		if want == 0 {
			return text == "" || text == "0"
		}
		n, err := strconv.ParseInt(text, 10, 64)
		return err == nil && s.SameToken(uint8(want), n)
	case Left:
		ms, is := got.(int64)
		return is && ticksOfMillis(ms) == uint8(want)
	case Till:
		ms, is := strings.CutPrefix(fmt.Sprint(got), "till")
		return is && ticksUntil(ms) == uint8(want)
	case nil:
		return got == nil
	}
	return fmt.Sprint(got) == fmt.Sprint(want)
}

// SameToken notes which real token is the model's. It returns false if one is another token's, or if the order differs.
func (s *Side) SameToken(model uint8, real int64) bool {
	for m, other := range s.real {
		if (m == model) != (other == real) || (m < model) != (other < real) {
			s.Differ("token %d is %d at the server, where %d is %d", model, real, m, other)
			return false
		}
	}
	s.real[model] = real
	return true
}

// Splits reports whether a real number lies rightly: tokens above one of the model are greater, all others are not.
func (s *Side) Splits(model uint8, real int64) bool {
	for m, other := range s.real {
		if (m > model) != (other > real) {
			s.Differ("%d is %d at the server, where the token %d is %d", model, real, m, other)
		}
	}
	return s.wrong == ""
}

// Real returns the server's token for a token of the model, "" if it is unknown.
func (s *Side) Real(token uint8) string {
	if n, known := s.real[token]; known {
		return strconv.FormatInt(n, 10)
	}
	return ""
}

// Listen subscribes to channels or unsubscribes, and waits for the server's confirmation.
func (s *Side) Listen(on bool, channels ...string) {
	ctx := s.T.Context()
	if s.ears == nil {
		s.ears = s.RDB.Subscribe(ctx, s.Name)
		s.confirmed("subscribe", s.Name)
	}
	kind, change := "unsubscribe", s.ears.Unsubscribe
	if on {
		kind, change = "subscribe", s.ears.Subscribe
	}
	require.NoError(s.T, change(ctx, channels...))
	for _, channel := range channels {
		s.confirmed(kind, channel)
	}
}

func (s *Side) confirmed(kind, channel string) {
	for {
		got, err := s.ears.Receive(s.T.Context())
		require.NoError(s.T, err)
		if c, ok := got.(*redis.Subscription); ok && c.Kind == kind && c.Channel == channel {
			return
		}
	}
}

// Heard returns the messages since the last call: one connection gets them in order, all before one that is published now.
func (s *Side) Heard() (list []*redis.Message) {
	if s.ears == nil {
		return nil
	}
	require.NoError(s.T, s.RDB.Publish(s.T.Context(), s.Name, "end").Err())
	for {
		m, err := s.ears.ReceiveMessage(s.T.Context())
		require.NoError(s.T, err)
		if m.Channel == s.Name {
			return list
		}
		list = append(list, m)
	}
}

// HearIf expects one message, or none.
func (s *Side) HearIf(sent bool, what, channel, text string) {
	if sent {
		s.Hear(what, [2]string{channel, text})
	} else {
		s.Hear(what)
	}
}

// Hear compares the messages since the last call with those of the model: a channel and a text each.
func (s *Side) Hear(what string, want ...[2]string) {
	var heard [][2]string
	for _, m := range s.Heard() {
		heard = append(heard, [2]string{m.Channel, m.Payload})
	}
	if !slices.Equal(heard, want) {
		s.Differ("%s sent %q, the model %q", what, heard, want)
	}
}
