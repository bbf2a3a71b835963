package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestText: what is printed or logged says what it is, and not what its struct looks like.
func TestText(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	c, err := holdfast.New(rdb, &holdfast.Options{Label: "billing@host-7"})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(context.Background())) }()
	m := rlock.New(c, "a\nb")
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	logged := func(v any) string {
		out := new(bytes.Buffer)
		slog.New(slog.NewTextHandler(out, nil)).Info("x", "v", v)
		_, attrs, _ := strings.Cut(strings.TrimSpace(out.String()), "msg=x ")
		return attrs
	}
	owner := h.Owner()
	require.Equal(t, fmt.Sprintf(`rlock "a\nb", token %d, owner %s`, h.Token(), owner), fmt.Sprint(h))
	require.Equal(t, fmt.Sprintf(`v.kind=rlock v.name="\"a\\nb\"" v.token=%d v.owner=%s v.count=1`, h.Token(), owner), logged(h))
	require.Equal(t, "client "+c.ID()+" (billing@host-7)", fmt.Sprint(c))
	require.Equal(t, "v.id="+c.ID()+" v.label=billing@host-7", logged(c))
	state, err := m.State(t.Context())
	require.NoError(t, err)
	require.Regexp(t, fmt.Sprintf(`^held by %s, [0-9.]+s left, token %d$`, owner, h.Token()), fmt.Sprint(state))
	require.Contains(t, logged(state), "v.owner="+owner+" v.count=1 v.remaining=")
	require.NoError(t, h.Unlock(t.Context()))
	require.Equal(t, fmt.Sprintf(`rlock "a\nb", token %d, owner %s: already unlocked`, h.Token(), owner), fmt.Sprint(h))

	var none *holdfast.Hold
	var nobody *holdfast.Client
	require.Equal(t, "no hold no hold no client no client", fmt.Sprint(none, " ", &holdfast.Hold{}, " ", nobody, " ", &holdfast.Client{}))
	require.Equal(t, "v=\"no hold\"", logged(none))
	require.Equal(t, "free", fmt.Sprint(holdfast.State{Waiters: -1}))
	require.Equal(t, "held by x, entered 2 times, without an end, token 7, 3 waiting",
		holdfast.State{Owner: "x", Count: 2, Remaining: -time.Millisecond, Token: 7, Waiters: 3}.String())
}

// TestDoSaysALossOnce: where the function returns the loss, the unlock behind it does not say it again.
func TestDoSaysALossOnce(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	c, err := holdfast.New(rdb, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(context.Background())) }()
	lose := func(ctx context.Context, h *holdfast.Hold) {
		require.NoError(t, rdb.Del(ctx, "lost").Err())
		require.ErrorIs(t, h.Extend(context.Background(), time.Minute), holdfast.ErrLost)
	}
	m := rlock.New(c, "lost")
	bad := errors.New("bad")
	for _, returns := range []func(ctx context.Context) error{
		context.Cause,
		func(ctx context.Context) error { return fmt.Errorf("%w: %w", bad, context.Cause(ctx)) },
		func(context.Context) error { return bad },
		func(context.Context) error { return nil },
	} {
		err = holdfast.Do(t.Context(), m, func(ctx context.Context) error {
			h, err := m.Lock(ctx)
			require.NoError(t, err)
			lose(t.Context(), h)
			return returns(ctx)
		})
		require.ErrorIs(t, err, holdfast.ErrLost)
		require.Equal(t, 1, strings.Count(err.Error(), "lock lost"), err.Error())
		require.Contains(t, err.Error(), `rlock: unlock "lost": `)
		var e *holdfast.Error
		require.ErrorAs(t, err, &e)
	}
}
