package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// explores are the functions of which a test calls one that explores, by their packages: those of package level, and those of
// other kits that draw a seed, or look for the level, for the tests that call them.
var explores = map[string][]string{
	testkit + "level":          {"Seed", "Rand", "ForSoak", "Soaking"},
	testkit + "model":          {"Large"},
	testkit + "model/fidelity": {"Like"},
}

const testkit = "github.com/holdfast-go/holdfast/internal/testkit/"

// explorers returns the tests below root that explore: the first of each folder, then the second of each, so that
// a short soak has something of all.
func explorers(root string) ([]test, error) {
	byFolder := make(map[string][]string)
	var folders []string
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); at != root && (name[0] == '.' || name == "testdata" || name == "bin") {
			return filepath.SkipDir
		}
		names, err := exploring(at)
		if len(names) > 0 {
			folder, _ := filepath.Rel(root, at)
			folders = append(folders, filepath.ToSlash(folder))
			byFolder[filepath.ToSlash(folder)] = names
		}
		return err
	})
	var tests []test
	for i, more := 0, true; more; i++ {
		more = false
		for _, folder := range folders {
			if names := byFolder[folder]; i < len(names) {
				tests, more = append(tests, test{folder: folder, name: names[i]}), true
			}
		}
	}
	return tests, err
}

// exploring returns the names of the tests in a folder that call one of [explores], themselves or through
// functions and methods of the folder. Functions are told apart by their names alone, so one too many may be
// found, and none is missed.
func exploring(folder string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	calls := make(map[string][]string) // the names that a function mentions
	direct := make(map[string]bool)    // functions that call one of those
	var tests []string
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // in the repository
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		known := make(map[string][]string) // such functions, by the names of their packages
		for _, i := range f.Imports {
			imported := strings.Trim(i.Path.Value, `"`)
			known[path.Base(imported)] = explores[imported]
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			name := fn.Name.Name
			if fn.Recv == nil && strings.HasPrefix(name, "Test") && name != "TestMain" && strings.HasSuffix(file, "_test.go") {
				tests = append(tests, name)
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if of, ok := n.X.(*ast.Ident); ok && slices.Contains(known[of.Name], n.Sel.Name) {
						direct[name] = true
					}
				case *ast.Ident:
					calls[name] = append(calls[name], n.Name)
				}
				return true
			})
		}
	}
	return slices.DeleteFunc(tests, func(name string) bool { return !reaches(name, calls, direct, make(map[string]bool)) }), nil
}

// reaches reports whether a function is one of the wanted ones, or mentions one that reaches them.
func reaches(name string, calls map[string][]string, wanted, seen map[string]bool) bool {
	if wanted[name] {
		return true
	}
	if seen[name] {
		return false
	}
	seen[name] = true
	return slices.ContainsFunc(calls[name], func(next string) bool { return reaches(next, calls, wanted, seen) })
}
