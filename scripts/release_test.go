package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

// repository is a clone of this one to release from, with what is changed here and not committed.
type repository struct {
	t   *testing.T
	dir string
}

const module = "github.com/holdfast-go/holdfast"

// clone keeps the heavy modules out: each costs seconds here, and every release looks at all of
// them. In their place stand two small ones, of which the first in the alphabet requires the other.
func clone(t *testing.T) *repository {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("RELEASE NOT TESTED: it needs a shell")
	}
	r := &repository{t: t, dir: filepath.Join(t.TempDir(), "holdfast")}
	here, err := filepath.Abs("..")
	require.NoError(t, err)
	r.run(here, "git", "clone", "-q", here, r.dir)
	r.git("checkout", "-q", "-B", "main")
	r.git("config", "user.name", "test")
	r.git("config", "user.email", "test@localhost")
	for _, mod := range strings.Fields(r.git("ls-files", "*/go.mod")) {
		if dir := filepath.Dir(mod); dir != "holdfastprom" {
			r.git("rm", "-rqf", dir)
		}
	}
	for _, script := range []string{"release.sh", "modules.sh"} {
		text, err := os.ReadFile(script)
		require.NoError(t, err)
		r.write("scripts/"+script, string(text))
	}
	r.write("zulu/go.mod", "module "+module+"/zulu\n\ngo 1.26.0\n\nrequire "+module+" v0.0.0\n\nreplace "+module+" => ../\n")
	r.write("zulu/zulu.go", "// Package zulu is a module that others require.\npackage zulu\n\nimport \""+module+"/rlock\"\n\n"+
		"// New is rlock's.\nvar New = rlock.New\n\n// Gone is taken away later.\nfunc Gone() {}\n")
	r.write("alpha/go.mod", "module "+module+"/alpha\n\ngo 1.26.0\n\nrequire "+module+"/zulu v0.0.0\n")
	r.write("alpha/alpha.go", "// Package alpha requires a module that comes after it.\npackage alpha\n\nimport \""+module+"/zulu\"\n\n"+
		"// New is zulu's.\nvar New = zulu.New\n")
	for _, dir := range []string{"zulu", "alpha"} {
		sums, err := os.ReadFile("../go.sum")
		require.NoError(t, err)
		r.write(dir+"/go.sum", string(sums))
	}
	// What go mod tidy writes where the siblings are at hand.
	r.indirect("zulu", module)
	r.indirect("alpha", module, module+"/zulu")
	r.write("own/go.mod", "// Not released: for those who work on the library.\n\nmodule "+module+"/own\n\ngo 1.26.0\n\n"+
		"require "+module+" v0.0.0\n\nreplace "+module+" => ../\n\n"+
		"replace "+module+"/zulu => ../zulu\n") // for go.work: see docs/releasing.md
	r.write("own/own.go", "package own\n")
	r.write("go.work", "go 1.26.0\n\nuse (\n\t.\n\t./alpha\n\t./holdfastprom\n\t./own\n\t./zulu\n)\n")
	r.commit("modules for a test")
	return r
}

// indirect adds what the root requires to the go.mod of the module in dir.
func (r *repository) indirect(dir string, siblings ...string) {
	text, err := os.ReadFile("../go.mod")
	require.NoError(r.t, err)
	args := []string{"mod", "edit"}
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) >= 2 && strings.HasPrefix(line, "\t") && !strings.Contains(f[0], "testify") && !strings.Contains(f[0], "goleak") {
			args = append(args, "-require="+f[0]+"@"+f[1])
		}
	}
	for _, s := range siblings {
		args = append(args, "-require="+s+"@v0.0.0")
	}
	r.run(filepath.Join(r.dir, dir), "go", args...)
}

func (r *repository) write(name, text string) {
	name = filepath.Join(r.dir, name)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(name), 0o755))
	mode := os.FileMode(0o644)
	if strings.HasSuffix(name, ".sh") {
		mode = 0o755
	}
	require.NoError(r.t, os.WriteFile(name, []byte(text), mode))
}

func (r *repository) read(name string) string {
	text, err := os.ReadFile(filepath.Join(r.dir, name))
	require.NoError(r.t, err)
	return string(text)
}

func (r *repository) replace(name, from, to string) {
	text := r.read(name)
	require.Contains(r.t, text, from)
	r.write(name, strings.Replace(text, from, to, 1))
}

func (r *repository) commit(why string) {
	r.git("add", "-A")
	r.git("commit", "-q", "-m", why)
}

func (r *repository) git(args ...string) string { return r.run(r.dir, "git", args...) }

func (r *repository) run(dir, name string, args ...string) string {
	out, err := program(dir, name, args...)
	require.NoError(r.t, err, out)
	return out
}

// release runs the script and returns all that it says.
func (r *repository) release(args ...string) (string, error) {
	return program(r.dir, "scripts/release.sh", append([]string{"--quick"}, args...)...)
}

func (r *repository) refused(why string, args ...string) {
	before := r.git("show-ref")
	out, err := r.release(args...)
	require.Error(r.t, err, out)
	require.Contains(r.t, out, why)
	require.Equal(r.t, before, r.git("show-ref"), "it was refused, but something of it stayed")
}

func program(dir, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=")
	out, err := c.CombinedOutput()
	return string(out), err
}

// TestRelease makes releases in a clone: real commits, real tags, and the go command of a user, who gets the modules from these
// tags alone. That user's part is in the script itself, so that no release is made without it.
func TestRelease(t *testing.T) {
	level.ForAll(t)
	r := clone(t)

	before := r.git("show-ref")
	out, err := r.release("--dry-run", "v0.1.0")
	require.NoError(t, err, out)
	require.Equal(t, before, r.git("show-ref"), "a dry run changed something")
	require.Contains(t, out, module+"@v0.1.0 "+module+"/holdfastprom@v0.1.0")
	require.Contains(t, out, "without a replace")

	out, err = r.release("v0.1.0")
	require.NoError(t, err, out)
	tags := strings.Fields(r.git("tag", "--list"))
	require.ElementsMatch(t, []string{"v0.1.0", "alpha/v0.1.0", "holdfastprom/v0.1.0", "zulu/v0.1.0"}, tags, "what is not released has a tag, or something that is has none")
	// Who is required is tagged first: its tag is on an ancestor.
	r.git("merge-base", "--is-ancestor", "v0.1.0", "zulu/v0.1.0")
	r.git("merge-base", "--is-ancestor", "zulu/v0.1.0", "alpha/v0.1.0")
	require.NotEqual(t, r.git("rev-parse", "zulu/v0.1.0^{commit}"), r.git("rev-parse", "alpha/v0.1.0^{commit}"))
	zulu := r.git("show", "zulu/v0.1.0:zulu/go.mod")
	require.Contains(t, zulu, module+" v0.1.0")
	require.NotContains(t, zulu, "replace")
	require.Contains(t, r.read("own/go.mod"), "replace", "what is not released stands on the tree that it is in")
	require.Contains(t, r.read("CHANGELOG.md"), "## Unreleased\n\n## 0.1.0 - ")
	// Development goes on with go.work, without a network once there is what the library imports.
	r.run(r.dir, "env", "GOWORK=off", "go", "mod", "download")
	out, err = program(r.dir, "env", "GOPROXY=off", "go", "list", "./...", "./alpha/...", "./zulu/...", "./own/...")
	require.NoError(t, err, out)

	r.refused("nothing is said under '## Unreleased'", "v0.1.1")
	r.replace("CHANGELOG.md", "## Unreleased\n", "## Unreleased\n\n### Fixed\n* Something.\n")
	r.refused("not committed", "v0.1.1")
	r.commit("a fix")
	r.refused("is there already", "v0.1.0")
	r.refused("is not above v0.1.0", "v0.0.9")
	r.refused("give one as v1.2.3", "1.2.3")
	r.refused("give one as v1.2.3", "v2.0.0")

	if testing.Short() {
		return // the API and a whole user's build once more: half of the time
	}
	// The control of the check of the API: what was released is taken away, in the root and in another module.
	r.replace("zulu/zulu.go", "// Gone is taken away later.\nfunc Gone() {}\n", "")
	r.commit("zulu: Gone is gone")
	r.refused("Gone: removed", "--dry-run", "v0.1.1")
	out, err = r.release("--dry-run", "v0.2.0") // before v1 the second number is for this
	require.NoError(t, err, out)
	require.Contains(t, out, "Gone: removed")
	r.git("revert", "--no-edit", "HEAD")
	r.replace("event/join.go", "func Join(", "func JoinAll(")
	r.commit("an exported name is another now")
	r.refused("Join: removed", "--dry-run", "v0.1.1")
	r.git("revert", "--no-edit", "HEAD")

	// The control of what is made of each go.mod: a module that still asks for a version that nobody can have is refused.
	r.replace("scripts/release.sh", `go mod edit -dropreplace="$need"`, ":")
	r.replace("scripts/release.sh", `go mod edit -require="$need@$version"`, ":")
	r.commit("a script that forgets what it is for")
	r.refused("go.mod or go.sum lacks something", "--dry-run", "v0.1.1")
}

func TestMain(m *testing.M) { leak.Main(m) }

// TestModulesOfUsers: each module that is released has in its go.mod and go.sum all that its packages and their tests need.
// Nobody sees that where go.work stands in for what is missing; a release, which is made without it, would find out first. Only
// the siblings come from this tree: no version of theirs is public yet that has what is here.
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

// listAlone has the go command list all that the module in dir needs, by a go.mod that replaces its siblings by those here.
func listAlone(t *testing.T, dir string, siblings map[string]string, change func(string) string) (string, error) {
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
