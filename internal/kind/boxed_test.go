package kind

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestBoxes(t *testing.T) {
	var b Boxes
	for _, d := range []time.Duration{time.Second, time.Second, time.Minute, time.Nanosecond, 3 * time.Hour,
		time.Second} {
		millis, ttl := b.Lease(d)
		require.Equal(t, Millis(d), millis)
		require.Equal(t, TokenTTL(d), ttl)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { b.Lease(time.Second) }), "kept")
	for _, command := range []string{"PUBLISH", "SPUBLISH", "another"} {
		require.Equal(t, command, Publish(command))
	}
	require.Equal(t, "1", Flag(true))
	require.Equal(t, "0", Flag(false))
}
