package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/watchdog"
)

func wrap(errs ...error) error {
	return &holdfast.Error{Op: "lock", Kind: "rlock", Name: "a", Err: errors.Join(errs...)}
}

func TestOutcome(t *testing.T) {
	live := context.Background()
	canceled, cancel := context.WithCancel(live)
	cancel()
	own, cancelOwn := context.WithCancelCause(live)
	cancelOwn(errors.New("of the user's"))
	late, cancelLate := context.WithDeadline(live, time.Now().Add(-time.Second))
	defer cancelLate()
	for i, row := range []struct {
		ctx  context.Context
		once bool
		err  error
		want string
	}{
		{live, true, wrap(holdfast.ErrNotAcquired), Refused},
		{live, false, wrap(holdfast.ErrNotAcquired), TimedOut},
		{live, false, wrap(holdfast.ErrNotAcquired, context.DeadlineExceeded), TimedOut},
		{late, false, wrap(holdfast.ErrNotAcquired, context.DeadlineExceeded), TimedOut},
		{late, false, wrap(holdfast.ErrUnavailable, context.DeadlineExceeded), Unavailable},
		{live, true, wrap(holdfast.ErrUnavailable, io.EOF), Unavailable},
		{live, false, wrap(holdfast.ErrUnavailable, holdfast.ErrUncertain), Unavailable},
		{canceled, false, wrap(holdfast.ErrNotAcquired, context.Canceled), Canceled},
		{canceled, false, wrap(holdfast.ErrUnavailable, context.Canceled), Canceled},
		{canceled, true, wrap(holdfast.ErrUnavailable, context.Canceled), Canceled},
		{own, false, wrap(errors.New("of the user's")), Canceled},
		{live, false, wrap(holdfast.ErrClosed), Canceled},
		{live, false, wrap(holdfast.ErrInvalid), Failed},
		{live, false, wrap(holdfast.ErrNotReplicated), Failed},
	} {
		require.Equal(t, row.want, Outcome(row.ctx, row.once, row.err), "row %d: %v", i, row.err)
		require.Contains(t, Outcomes, row.want)
	}
}

func TestReason(t *testing.T) {
	for err, want := range map[error]string{
		watchdog.ErrDeadline: Silent, watchdog.ErrEnded: Ended, watchdog.ErrGone: Gone, io.EOF: Else,
	} {
		require.Equal(t, want, Reason(fmt.Errorf("%w: %w", holdfast.ErrLost, err)))
		require.Contains(t, Reasons, want)
	}
}

func TestRenewal(t *testing.T) {
	for _, row := range []struct {
		left  time.Duration
		err   error
		want  string
		slack float64
	}{
		{20 * time.Second, nil, InTime, 2.0 / 3},
		{10 * time.Second, nil, InTime, 1.0 / 3},
		{9 * time.Second, nil, Late, 0.3},
		{-time.Second, nil, Late, 0},
		{9 * time.Second, io.EOF, Again, 0.3},
		{9 * time.Second, wrap(holdfast.ErrLost), Lost, 0.3},
	} {
		outcome, slack := Renewal(event.Renewal{Lease: 30 * time.Second, Left: row.left, Err: row.err})
		require.Equal(t, row.want, outcome)
		require.InDelta(t, row.slack, slack, 1e-9)
		require.Contains(t, Renewals, row.want)
	}
	_, slack := Renewal(event.Renewal{})
	require.Zero(t, slack, "and not NaN, which would spoil the sum for ever")
}

type redisError struct{ error }

func (redisError) RedisError() {}

func TestFailure(t *testing.T) {
	require.Empty(t, Failure(nil))
	require.Empty(t, Failure(redis.Nil))
	require.Equal(t, Answered, Failure(fmt.Errorf("script: %w", redisError{errors.New("OOM")})))
	require.Equal(t, Unanswered, Failure(io.EOF))
}

// TestKindsAreAll: the list has every kind that a package names in its errors, but latch and multilock, which have no holds.
func TestKindsAreAll(t *testing.T) {
	files, err := filepath.Glob("../../*/*.go")
	require.NoError(t, err)
	found := []string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, after, ok := strings.Cut(string(text), "kindName = \"")
		kind, _, _ := strings.Cut(after, "\"")
		if ok && kind != "latch" && kind != "multilock" {
			found = append(found, kind)
		}
	}
	require.ElementsMatch(t, Kinds, found)
}

func beforeColon(name string) string {
	class, _, _ := strings.Cut(name, ":")
	return class
}

func TestClassesAreCapped(t *testing.T) {
	c := classes{of: beforeColon, max: 3}
	require.Equal(t, "a", c.class("rlock", "a:1"))
	require.Equal(t, "a", c.class("fairlock", "a:1"), "a pair of its own")
	require.Equal(t, "b", c.class("rlock", "b:1"))
	require.Equal(t, Other, c.class("rlock", "c:1"), "the fourth pair")
	require.Equal(t, Other, c.class("fairlock", "b:1"))
	require.Equal(t, "a", c.class("rlock", "a:2"), "those who were there first stay")
	c = classes{of: beforeColon, max: 100}
	leak.Together(8, func(g int) {
		for i := range 500 {
			c.class("rlock", fmt.Sprint((i*7+g)%500, ":x"))
		}
	})
	require.Len(t, c.known, 100)
}

func TestClassesOfWildFunctions(t *testing.T) {
	c := classes{max: 3}
	require.Empty(t, c.class("rlock", "a"), "no function, no classes")
	c.of = func(string) string { panic("of the user's") }
	require.Equal(t, Other, c.class("rlock", "a"))
	c.of = func(string) string { return "a\xff" }
	require.Equal(t, `"a\xff"`, c.class("rlock", "a"))
	require.Len(t, c.known, 1)
}

func TestMain(m *testing.M) { leak.Main(m) }
