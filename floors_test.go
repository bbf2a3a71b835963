package holdfast_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// floors is the order of the files of internal/engine, from the top down. A file uses what those on lower floors declare, and
// nothing of those beside it or above. Methods and fields belong to the file that they are written in.
//
// A file that needs something from above names it as an interface, as Hold does with holdOwner and ServerLease
// with holder; or what is needed belongs further down, in a file of its own.
var floors = []string{
	"acquire close release",
	"ping reentry renewal view",
	"joined state text",
	"place",
	"attempt oneserver",
	"handoff refusal",
	"idle",
	"acquisition+grant+owner", // a grant is its owner's, and an owner finds its grants: the one has the other's mutex inside its own
	"note turns",
	"lease",
	"lock",
	"backend hold",
	"client settings",
	"watchdogs",
	"options rivals",
	"doc",
}

// floorOf returns the floor of each file, counted from the bottom, and its room: files joined by a plus may use each other.
func floorOf(list []string) (floor map[string]int, room map[string]string) {
	floor, room = map[string]int{}, map[string]string{}
	for i, f := range list {
		for _, r := range strings.Fields(f) {
			for _, file := range strings.Split(r, "+") {
				floor[file+".go"], room[file+".go"] = len(list)-i, r
			}
		}
	}
	return floor, room
}

// use is that one file names what another declares.
type use struct{ from, to, name string }

// upward returns the uses that do not lead downwards.
func upward(list []string, uses []use) (bad []use) {
	floor, room := floorOf(list)
	for _, u := range uses {
		if floor[u.from] <= floor[u.to] && room[u.from] != room[u.to] {
			bad = append(bad, u)
		}
	}
	return bad
}

// usesIn returns what the files of the package in a directory use of each other, with the lines of more at their ends.
func usesIn(t *testing.T, dir string, more map[string]string) (files []string, uses []use) {
	fset := token.NewFileSet()
	var parsed []*ast.File
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		base := filepath.Base(name)
		f, err := parser.ParseFile(fset, base, string(text)+more[base], parser.SkipObjectResolution)
		require.NoError(t, err)
		files, parsed = append(files, base), append(parsed, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", exports(t, dir))}
	pkg, err := config.Check(dir, fset, parsed, info)
	require.NoError(t, err)
	seen := map[use]bool{}
	for ident, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() {
			continue
		}
		u := use{fset.Position(ident.Pos()).Filename, fset.Position(object.Pos()).Filename, object.Name()}
		if u.from != u.to {
			seen[u] = true
		}
	}
	return files, slices.SortedFunc(maps.Keys(seen), func(a, b use) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
}

// exports finds what the compiler has written of the packages that one is built on.
func exports(t *testing.T, dir string) importer.Lookup {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-race", "-export", "-deps", "-json=ImportPath,Export", "./"+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	written := map[string]string{}
	for list := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ ImportPath, Export string }
		err := list.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		written[p.ImportPath] = p.Export
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(written[path]) }
}

func TestFilesOfTheEngineUseThoseBelow(t *testing.T) {
	files, uses := usesIn(t, "internal/engine", nil)
	floor, _ := floorOf(floors)
	require.ElementsMatch(t, files, slices.Collect(maps.Keys(floor)), "each file has a floor, and each floor has its files")
	require.Greater(t, len(uses), 300, "uses have been found")
	for _, u := range upward(floors, uses) {
		t.Errorf("%s uses %s of %s, which is no lower; move it down, or name what is needed as an interface", u.from,
			u.name, u.to)
	}
}

// The control: functions, methods, fields and types are seen, of files above and beside.
func TestUpwardUsesAreTold(t *testing.T) {
	_, uses := usesIn(t, "internal/engine", map[string]string{
		"client.go":  "\nfunc up(b *Lock, t *ServerLease) { b.Over(nil); t.over = pastDeadline(nil) }\n",
		"options.go": "\nvar beside = rivalFor\n",
	})
	require.ElementsMatch(t, []use{
		{"client.go", "lock.go", "Lock"}, {"client.go", "lock.go", "Over"},
		{"client.go", "lease.go", "ServerLease"}, {"client.go", "lease.go", "over"}, {"client.go", "grant.go", "pastDeadline"},
		{"options.go", "rivals.go", "rivalFor"},
	}, upward(floors, uses))
	clump := []use{{"owner.go", "grant.go", "grant"}, {"grant.go", "owner.go", "owner"}, {"grant.go", "hold.go", "Hold"}}
	require.Empty(t, upward(floors, clump), "who shares a room may")
	require.Equal(t, clump[:2], upward([]string{"grant owner", "hold"}, clump), "who shares a floor may not")
}
