package panics_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func run(f func() error) (err error) {
	defer panics.Into(&err)
	return f()
}

func TestInto(t *testing.T) {
	usual := errors.New("usual")
	require.NoError(t, run(func() error { return nil }))
	require.Equal(t, usual, run(func() error { return usual }))
	err := run(func() error { panic("hook") })
	require.EqualError(t, err, "a hook or dialer of go-redis panicked: hook")
	p := panics.In(fmt.Errorf("wrapped: %w", err))
	require.Equal(t, "hook", p.Value)
	require.Contains(t, string(p.Stack), "TestInto")
	require.Nil(t, panics.In(usual))
	require.Nil(t, panics.In(nil))
	require.Nil(t, panics.In(panics.Text(err)))
	require.EqualError(t, panics.Text(err), err.Error())
	require.Equal(t, usual, panics.Text(usual))
	defer defence.Panics.Without(t)()
	require.PanicsWithValue(t, "hook", func() { _ = run(func() error { panic("hook") }) }, "control")
}
