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
	r.t.Helper()
	out, err := program(dir, name, args...)
	require.NoError(r.t, err, out)
	return out
}

// release runs the script and returns all that it says.
func (r *repository) release(args ...string) (string, error) {
	return program(r.dir, "scripts/release.sh", append([]string{"--quick"}, args...)...)
}

func (r *repository) refused(why string, args ...string) {
	r.t.Helper()
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
