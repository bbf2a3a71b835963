// Command appendix prints docs/tests.md: every test of the repository with the first sentence of its
// comment, folder by folder. It is started in the root:
//
//	go run ./internal/testkit/appendix >docs/tests.md
//
// The page is made of the tests' own names and comments, so that it says what is tested and not what
// somebody once meant to test. A test of the root fails while it says something else than they do.
//
// Not promised: that a test does what its comment says.
package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	page, err := appendix(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "appendix:", err)
		os.Exit(1)
	}
	fmt.Print(page)
}

const head = `# Every test

Made of the tests' own names and comments by ` + "`go run ./internal/testkit/appendix`" + `; do not edit it.
[testing.md](testing.md) says what the tests are for. A test marked *all* does not run in the quick level, one marked *soak* only
in a soak.
`

// folder is a folder with tests.
type folder struct {
	path  string
	about string // the first sentence of the package's comment
	tests []entry
}

// entry is one test.
type entry struct{ name, says, level string }

// appendix returns the page for the repository in root.
func appendix(root string) (string, error) {
	folders, err := read(root)
	if err != nil {
		return "", err
	}
	var page strings.Builder
	page.WriteString(head)
	for _, f := range folders {
		fmt.Fprintf(&page, "\n## %s\n\n", f.path)
		if f.about != "" {
			fmt.Fprintf(&page, "%s\n\n", f.about)
		}
		for _, e := range f.tests {
			fmt.Fprintf(&page, "* `%s`%s%s\n", e.name, e.level, e.says)
		}
	}
	return page.String(), nil
}

// read finds all folders with tests, in the order of their names.
func read(root string) (folders []folder, err error) {
	byPath := make(map[string]*folder)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != root && (name[0] == '.' || name == "testdata" || name == "bin"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		at, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		at = filepath.ToSlash(at)
		if byPath[at] == nil {
			byPath[at] = &folder{path: at}
		}
		return byPath[at].add(path)
	})
	for _, f := range byPath {
		if len(f.tests) > 0 {
			slices.SortFunc(f.tests, func(a, b entry) int { return strings.Compare(a.name, b.name) })
			folders = append(folders, *f)
		}
	}
	slices.SortFunc(folders, func(a, b folder) int { return strings.Compare(a.path, b.path) })
	return folders, err
}

// add reads a file of the folder.
func (f *folder) add(path string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if file.Doc != nil && f.about == "" {
		f.about = sentence(file.Doc.Text())
	}
	if !strings.HasSuffix(path, "_test.go") {
		return nil
	}
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || fn.Name.Name == "TestMain" || !strings.HasPrefix(fn.Name.Name, "Test") {
			continue
		}
		e := entry{name: fn.Name.Name, level: levelOf(fn)}
		if says := sentence(fn.Doc.Text()); says != "" {
			e.says = ": " + strings.TrimLeft(strings.TrimPrefix(says, e.name), ": ")
		}
		f.tests = append(f.tests, e)
	}
	return nil
}

// levelOf says to which level a test belongs by its first calls, see package level. It is empty for the quick one.
func levelOf(fn *ast.FuncDecl) (mark string) {
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if of, ok := sel.X.(*ast.Ident); ok && of.Name == "level" {
			switch sel.Sel.Name {
			case "ForAll":
				mark = " *all*"
			case "ForSoak":
				mark = " *soak*"
			}
		}
		return true
	})
	return mark
}

// sentence is the first sentence of a comment, in one line.
func sentence(comment string) string { return new(doc.Package).Synopsis(comment) }
