package level

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestSeedIsFixed: a test has the same numbers each time, and another test has others.
func TestSeedIsFixed(t *testing.T) {
	t.Setenv(SoakEnv, "")
	t.Setenv(SeedEnv, "")
	require.Equal(t, Seed(t), Seed(t))
	require.Equal(t, Rand(t).Uint64(), Rand(t).Uint64())
	t.Run("another", func(t *testing.T) { require.NotEqual(t, fixed("TestSeedIsFixed"), Seed(t)) })
}

// TestSeedInASoak: there each is a new one, unless one is given to replay it.
func TestSeedInASoak(t *testing.T) {
	t.Setenv(SeedEnv, "")
	t.Setenv(SoakEnv, "1")
	require.NotEqual(t, fixed(t.Name()), Seed(t))
	t.Setenv(SeedEnv, "7")
	require.EqualValues(t, 7, Seed(t))
	require.Contains(t, Replay(t, 7), "HOLDFAST_SEED=7 go test -race -count=1 -run '^TestSeedInASoak$' .")
}

// TestLevels: what a level leaves out is skipped, and says for which level it is.
func TestLevels(t *testing.T) {
	t.Setenv(SeedEnv, "")
	skips := func(test func(testing.TB)) bool {
		r := &recorder{TB: t}
		test(r)
		return r.skipped
	}
	t.Setenv(SoakEnv, "")
	require.True(t, skips(ForSoak))
	require.Equal(t, testing.Short(), skips(ForAll))
	t.Setenv(SoakEnv, "1")
	require.False(t, skips(ForSoak))
	require.False(t, skips(ForAll))
	t.Setenv(SoakEnv, "")
	t.Setenv(SeedEnv, "7")
	require.False(t, skips(ForSoak), "a replay is no soak, but runs what soak runs")
}

// recorder is a test that notes that it is skipped, and goes on.
type recorder struct {
	testing.TB
	skipped bool
}

func (r *recorder) Skip(...any) { r.skipped = true }
