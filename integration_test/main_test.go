// Package integration_test tests the library as its users have it, on real servers of all versions and topologies. It is
// a module of its own, so that what it needs for that is not in the library's go.mod.
//
// Not here: tests of one package, which stand beside it. Nothing in this module is meant to be imported; every file ends
// in _test.go.
package integration_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestServer proves that the suite runs on the server it was asked to run on, and names it in the log.
func TestServer(t *testing.T) {
	s := redistest.Shared(t)
	bin, _ := redistest.Binary()
	says, err := exec.Command(bin, "--version").Output()
	require.NoError(t, err)
	t.Logf("%s, version %s, Valkey %t", bin, s.Version(), s.IsValkey())
	require.Contains(t, string(says), "v="+s.Version())
	require.Equal(t, strings.HasPrefix(string(says), "Valkey"), s.IsValkey())
}
