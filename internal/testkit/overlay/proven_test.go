package main

import (
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

// TestAControlCanFail draws a switch, and runs its control while the defence stays on: a control that passes then has
// shown no harm, so it proves nothing.
func TestAControlCanFail(t *testing.T) {
	level.ForSoak(t)
	switches := slices.Sorted(maps.Keys(controls))
	name := switches[level.Rand(t).IntN(len(switches))]
	at, err := filepath.Abs(root) // an overlay names its files in full
	require.NoError(t, err)
	out, err := staying(t, at, controls[name])
	t.Logf("the control of %s is %s", name, controls[name])
	require.Error(t, err, "it passes with the defence on: %s", out)
	require.Contains(t, out, "--- FAIL", "it did not run")
}

// staying runs a control in programs whose switches are there, and switch nothing.
func staying(t *testing.T, root, control string) (out string, err error) {
	t.Helper()
	list := rows(defences)
	for i := range list {
		list[i].mutated = strings.NewReplacer("OFF", "(OFF && false)", ".Off()", ".Off() && false").Replace(list[i].mutated)
	}
	dir := t.TempDir()
	require.NoError(t, write(root, dir, list))
	folder, test, _ := strings.Cut(control, ".Test")
	names := strings.Split(strings.ReplaceAll("Test"+test, " ", "_"), "/")
	for i, name := range names {
		names[i] = "^" + regexp.QuoteMeta(name) + "$"
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-race", "-short", "-count=1", "-vet=off", "-timeout=5m", //nolint:gosec // of the table
		"-overlay", filepath.Join(dir, "overlay.json"), "-run", strings.Join(names, "/"), "./"+folder)
	cmd.Dir = root
	text, err := cmd.CombinedOutput()
	return string(text), err
}
