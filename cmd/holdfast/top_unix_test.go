//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestTopStream: frames come until a signal ends them, which is no failure.
func TestTopStream(t *testing.T) {
	srv := redistest.Shared(t)
	hold(t, srv)
	p := command(t, srv, "top", "--json", "--every", "200ms", t.Name())
	p.prints(t, `"frame":3,`)
	require.Zero(t, p.told(t, syscall.SIGTERM), p.stderr.String())
	require.Empty(t, p.stderr.String())
	require.GreaterOrEqual(t, strings.Count(p.stdout.String(), `"name":"`+t.Name()+`"`), 2)
}
