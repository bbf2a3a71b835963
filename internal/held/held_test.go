package held

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestTheInnermostAndThoseAround(t *testing.T) {
	ctx := context.Background()
	require.Nil(t, From(ctx))
	require.Nil(t, From(ctx).Of("a"), "no hold has none around it")
	a := With(ctx, "a", 0, 1)
	b := With(a, "b", 0, 2)
	again := With(b, "a", 0, 3)
	for _, c := range []struct {
		ctx             context.Context
		token, ofA, ofB uint64
	}{{a, 1, 1, 0}, {b, 2, 1, 2}, {again, 3, 3, 2}} {
		require.Equal(t, c.token, From(c.ctx).Token)
		require.Equal(t, c.ofA, From(c.ctx).Of("a").Token)
		if c.ofB == 0 {
			require.Nil(t, From(c.ctx).Of("b"))
		} else {
			require.Equal(t, c.ofB, From(c.ctx).Of("b").Token)
		}
	}
}

// TestNamesElsewhere: a lock of the same name elsewhere is another one.
func TestNamesElsewhere(t *testing.T) {
	here := With(context.Background(), "a", "here", 1)
	require.Equal(t, []string{"a"}, From(With(here, "a", "here", 2)).Locks())
	require.EqualValues(t, 2, From(With(here, "a", "here", 2)).Of("a").Token)
	there := With(With(here, "a", "there", 2), "b", "here", 3)
	require.Equal(t, []string{"b", "a", "a"}, From(there).Locks())
	require.Nil(t, From(there).Of("a"), "which?")
	require.EqualValues(t, 3, From(there).Of("b").Token)
}
