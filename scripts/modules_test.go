package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestModulesOfUsers: each module that is released has in its go.mod and go.sum all that its packages and
// their tests need. Nobody sees that where go.work stands in for what is missing; a release, which is
// made without it, would find out first. Only the siblings come from this tree: no version of theirs is
// public yet that has what is here.
func TestModulesOfUsers(t *testing.T) {
	released := releasedModules(t)
	require.Greater(t, len(released), 10, "%v", released)
	for dir := range released {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			out, err := listAlone(t, dir, released, nil)
			require.NoError(t, err, "go mod tidy, with these replaces and without go.work, mends it:\n%s", out)
		})
	}
	t.Run("control", func(t *testing.T) {
		t.Parallel()
		_, err := listAlone(t, "holdfasttest", released, func(mod string) string {
			return strings.ReplaceAll(mod, "golang.org/x/sys ", "golang.org/x/text ")
		})
		require.Error(t, err, "a module that lacks one that it needs is not found out")
	})
}

// releasedModules returns the directories of the modules that are released, with their paths.
func releasedModules(t *testing.T) map[string]string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("MODULES NOT TESTED: what is released is told by a shell")
	}
	out, err := program("..", "bash", "-c", `. scripts/modules.sh; modules | while read -r d; do released "$d" && echo "$d $(path_of "$d")"; done; true`)
	require.NoError(t, err, out)
	all := map[string]string{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		require.Len(t, f, 2, out)
		all[f[0]] = f[1]
	}
	return all
}

// listAlone has the go command look for all that the module in dir needs, with a go.mod beside the real one
// in which its siblings are replaced by their directories here.
func listAlone(t *testing.T, dir string, siblings map[string]string, change func(string) string) (string, error) {
	t.Helper()
	here, err := filepath.Abs("..")
	require.NoError(t, err)
	mod := filepath.Join(t.TempDir(), "go.mod")
	for from, to := range map[string]string{"go.mod": mod, "go.sum": strings.TrimSuffix(mod, "mod") + "sum"} {
		text, err := os.ReadFile(filepath.Join(here, dir, from))
		require.NoError(t, err)
		if change != nil {
			text = []byte(change(string(text)))
		}
		require.NoError(t, os.WriteFile(to, text, 0o600))
	}
	args := []string{"mod", "edit"}
	for sibling, path := range siblings {
		if sibling != dir {
			args = append(args, "-replace="+path+"="+filepath.Join(here, sibling))
		}
	}
	out, err := program(here, "go", append(args, mod)...)
	require.NoError(t, err, out)
	list := exec.Command("go", "list", "-mod=readonly", "-modfile="+mod, "-deps", "-test", "./...")
	list.Dir = filepath.Join(here, dir)
	list.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	text, err := list.CombinedOutput()
	return string(text), err
}
