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

// Tick is the length of a tick: far longer than a test, so that real time does not matter.
const Tick = 1000 * time.Second

// Side is the real side of a history: the server, and random numbers.
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

// Few returns a random number below n.
func (s *Side) Few(n int) uint8 { return uint8(s.Rnd.IntN(n)) } //nolint:gosec // a few

// Key returns the name of another key of the lock.
func (s *Side) Key(of string) string { return of + ":{" + s.Name + "}" }

// Millis returns a duration for a script. Rounded up it is a whole number of ticks. A later call returns
// a longer duration for the same number of ticks: otherwise it would depend on milliseconds which of two
// leases a script takes for the longer one.
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

// Run runs a script, and compares its reply with the one that the model expects: a status, and the values
// behind it. It ignores further values of the real reply.
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

// SameToken notes which token of the server belongs to a token of the model. It returns false if one of
// them already belongs to another token, or if their order differs.
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

// Splits reports whether a number at the server lies where it should among the tokens: the tokens above
// one of the model are greater, all others are not.
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
