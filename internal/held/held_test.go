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
	a := With(ctx, "a", 1)
	b := With(a, "b", 2)
	again := With(b, "a", 3)
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
