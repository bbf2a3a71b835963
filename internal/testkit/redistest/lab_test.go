package redistest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// each runs a test on every server program there is.
func each(t *testing.T, test func(t *testing.T, bin Option, p Program)) {
	for _, p := range Programs(t) {
		t.Run(p.Name, func(t *testing.T) { test(t, Exec(p.Path), p) })
	}
}

func TestProgramsAreWhatTheyAreCalled(t *testing.T) {
	each(t, func(t *testing.T, bin Option, p Program) {
		s := Start(t, bin)
		require.Equal(t, p.Version, s.Version())
		require.Equal(t, p.Valkey, s.IsValkey())
	})
}

func TestProgramsAreSortedAndOnce(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	for name, says := range map[string]string{
		"a": "Valkey server v=8.1.1 sha=0", "b": "Redis server v=8.10.0 sha=0", "c": "Redis server v=8.6.3 sha=0",
		"d": "Redis server v=8.6.3 sha=0", "e": "Redis server v=6.0.16 sha=0",
	} {
		script := "#!/bin/sh\necho " + says + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", name+"-server"), []byte(script), 0o700)) //nolint:gosec // it is run
	}
	t.Setenv(ServersEnv, dir)
	t.Setenv(BinaryEnv, filepath.Join(dir, "bin", "d-server"))
	var names []string
	for _, p := range Programs(t) {
		names = append(names, p.Name)
	}
	require.Equal(t, []string{"redis-6.0.16", "redis-8.6.3", "redis-8.10.0", "valkey-8.1.1"}, names)
}
