package scripts_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRelease makes releases in a clone: real commits, real tags, and the go command of a user, who
// gets the modules from these tags alone. That user's part is in the script itself, so that no
// release is made without it.
func TestRelease(t *testing.T) {
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
	// Development goes on with go.work, without a network.
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
	r.replace("observer_join.go", "func JoinObservers(", "func JoinAll(")
	r.commit("an exported name is another now")
	r.refused("JoinObservers: removed", "--dry-run", "v0.1.1")
	r.git("revert", "--no-edit", "HEAD")

	// The control of what is made of each go.mod: a module that still asks for a version that nobody can have is refused.
	r.replace("scripts/release.sh", `go mod edit -dropreplace="$need"`, ":")
	r.replace("scripts/release.sh", `go mod edit -require="$need@$version"`, ":")
	r.commit("a script that forgets what it is for")
	r.refused("go.mod or go.sum lacks something", "--dry-run", "v0.1.1")
}
