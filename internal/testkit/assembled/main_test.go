package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// repository is one with three scripts, of which two share a part.
type repository struct {
	*testing.T
	dir string // of its scripts
}

func newRepository(t *testing.T) *repository {
	r := &repository{t, filepath.Join(t.TempDir(), "lua")}
	require.NoError(t, os.MkdirAll(filepath.Join(r.dir, "part"), 0o700))
	r.write("part/shared.lua", "-- shared: a header\nlocal x = 1\n")
	r.write("one.lua", "-- include shared\nreturn x\n")
	r.write("two.lua", "-- two: a header\n-- include shared\nreturn x + x\n")
	r.write("other.lua", "return 0\n")
	for _, args := range [][]string{
		{"init", "-q", ".."}, {"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "commit", "-q", "-m", "all"},
	} {
		_, err := git(r.dir, args...)
		require.NoError(t, err)
	}
	return r
}

func (r *repository) write(path, text string) {
	require.NoError(r, os.WriteFile(filepath.Join(r.dir, path), []byte(text), 0o600))
}

// prints is what the command prints.
func (r *repository) prints(base string, names ...string) string {
	var out strings.Builder
	require.NoError(r, run(r.dir, base, names, &out))
	return out.String()
}

// fails is why the command does not.
func (r *repository) fails(base string, names ...string) string {
	var out strings.Builder
	err := run(r.dir, base, names, &out)
	require.Error(r, err)
	require.Empty(r, out.String())
	return err.Error()
}

// compared are the scripts that a diff is about.
func compared(diff string) (names []string) {
	for _, m := range regexp.MustCompile(`(?m)^diff --git .*/(\w+)\.lua$`).FindAllStringSubmatch(diff, -1) {
		names = append(names, m[1])
	}
	return names
}

// TestDiff: a part that has changed shows in all scripts that include it, and in no other.
func TestDiff(t *testing.T) {
	r := newRepository(t)
	require.Empty(t, r.prints("HEAD"), "nothing has changed")
	r.write("part/shared.lua", "-- shared: another header\nlocal x = 1\n")
	require.Empty(t, r.prints("HEAD"), "no server gets the header of a part")
	r.write("part/shared.lua", "-- shared: a header\nlocal x = 2\n")
	diff := r.prints("HEAD")
	require.Equal(t, []string{"one", "two"}, compared(diff))
	require.Equal(t, 2, strings.Count(diff, "\n-local x = 1\n+local x = 2\n"), diff)
	require.Equal(t, []string{"two"}, compared(r.prints("HEAD", "two")))
	require.Empty(t, r.prints("HEAD", "other"))
}

// TestDiffOfFiles: scripts that are new or gone show.
func TestDiffOfFiles(t *testing.T) {
	r := newRepository(t)
	r.write("new.lua", "-- include shared\n")
	require.NoError(t, os.Remove(filepath.Join(r.dir, "other.lua")))
	require.Contains(t, r.prints("HEAD"), "--- /dev/null\n+++ now/new.lua\n@@ -0,0 +1 @@\n+local x = 1\n")
	require.Contains(t, r.prints("HEAD", "other"), "--- then/other.lua\n+++ /dev/null\n@@ -1 +0,0 @@\n-return 0\n")
}

func TestShow(t *testing.T) {
	r := newRepository(t)
	require.Equal(t, "local x = 1\nreturn x\n", r.prints("", "one"))
	require.Equal(t, "local x = 1\nreturn x\nreturn 0\n-- two: a header\nlocal x = 1\nreturn x + x\n", r.prints(""))
}

func TestErrors(t *testing.T) {
	r := newRepository(t)
	require.Contains(t, r.fails("", "none"), "there is no script none")
	require.Contains(t, r.fails("HEAD", "none"), "there is no script none")
	require.Contains(t, r.fails("no-such-revision"), "no-such-revision")
	r.write("one.lua", "-- include none\n")
	require.Contains(t, r.fails("HEAD"), "one.lua includes none, but there is no part/none.lua")
}
