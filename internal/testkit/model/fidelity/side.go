package fidelity

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/lua"
)

// Tick is far longer than a test, so that real time does not matter.
const Tick = 1000 * time.Second

// Side is what a history has beside the model: the real server, and chance.
type Side struct {
	T    testing.TB
	RDB  *redis.Client
	Rnd  *rand.Rand
	Name string // of the lock

	ears  *redis.PubSub   // see hear.go
	names []string        // of the keys that are compared
	real  map[uint8]int64 // what the model's tokens are at the server
	steps []string        // so far, for whoever has to understand a difference
	wrong string          // how the last reply, or message, differs
}

// Few is a random number below n.
func (s *Side) Few(n int) uint8 { return uint8(s.Rnd.IntN(n)) } //nolint:gosec // a few

// Key is the name of a key of the lock's, beside its own.
func (s *Side) Key(of string) string { return of + ":{" + s.Name + "}" }

// Millis is a number of ticks for a script. Rounded up these are whole ticks. Of two times of equal
// ticks the later one is longer, or else it would depend on the millisecond which of them a script
// takes for the longer one.
func (s *Side) Millis(ticks uint8) int64 { return whole(ticks).Milliseconds() + 10*int64(len(s.steps)) }

func whole(ticks uint8) time.Duration { return time.Duration(ticks)*Tick - Tick/2 }

// Ticks is a time to live as the model counts it.
func Ticks(left time.Duration) uint8 {
	switch {
	case left == -1:
		return model.Endless
	case left < 0:
		return 0
	}
	return uint8((left + Tick - 1) / Tick) //nolint:gosec // a few
}

// Differ notes a difference. The first one counts.
func (s *Side) Differ(format string, args ...any) {
	if s.wrong == "" {
		s.wrong = fmt.Sprintf(format, args...)
	}
}

func (s *Side) note(step string) { s.steps = append(s.steps, step) }

// Values of a reply that are compared as something else than text.
type (
	Token uint8 // of the model's; 0: there is none
	Left  uint8 // ticks
	Till  uint8 // of a hash, ticks: a time of the server's with "till" before it
	Other struct{}
)

// Run runs a script, and compares its reply with the one that the model expects: a status, and what
// is behind it. What is behind that is not looked at.
func (s *Side) Run(what string, call lua.Call, status lua.Status, values ...any) (got lua.Reply) {
	got, err := lua.Run(s.T.Context(), s.RDB, call)
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

// Same compares a value with the model's.
func (s *Side) Same(what string, want, got any) {
	if !s.same(want, got) {
		s.Differ("%s said %v, the model %T %v", what, got, want, want)
	}
}

// same compares a value with the model's.
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

// SameToken notes that a token of the model's is this one at the server: one for one, and in the same
// order.
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

// Splits compares a number at the server that is no token: just the tokens above that one of the model's
// are greater.
func (s *Side) Splits(model uint8, real int64) bool {
	for m, other := range s.real {
		if (m > model) != (other > real) {
			s.Differ("%d is %d at the server, where the token %d is %d", model, real, m, other)
		}
	}
	return s.wrong == ""
}

// Real is what a token of the model's is at the server, "" if that is not known.
func (s *Side) Real(token uint8) string {
	if n, known := s.real[token]; known {
		return strconv.FormatInt(n, 10)
	}
	return ""
}
