package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEachSwitchHasAControl: each has one, which is there, switches it off, and is not only for a soak.
func TestEachSwitchHasAControl(t *testing.T) {
	require.Empty(t, uncontrolled(root, known(t), controls))
}

// TestASwitchWithoutAControl is the control: what is refused, and what is not.
func TestASwitchWithoutAControl(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "p"), 0o755))
	for file, text := range map[string]string{
		"p_test.go": `package p

func TestAlone(t *testing.T) { defer defence.A.Without(t)() }

func TestAsks(t *testing.T) { _ = defence.A.Off() }

func TestSoak(t *testing.T) { level.ForSoak(t); defer defence.A.Without(t)() }

func TestTable(t *testing.T) {
	for _, r := range rows { r.try(t) }
	t.Run("by a helper", func(t *testing.T) { helps(t) })
}
`,
		"q_test.go": `package p_test

var rows = []row{{name: "first", off: &defence.A}, {name: "second", off: &defence.BLong}}

func helps(t *testing.T) { m.helps(t) }

func (m *made) helps(t *testing.T) { defer defence.B.Without(t)() }
`,
		"r.go": "package p\n\nfunc TestNone(t *testing.T) { defer defence.A.Without(t)() }\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "p", file), []byte(text), 0o600))
	}
	for control, want := range map[string]string{
		"p.TestAlone":             "",
		"p.TestTable":             "",
		"p.TestTable/first":       "",
		"p.TestTable/second":      "does not switch it off",
		"p.TestTable/third":       "has no row third",
		"p.TestTable/by a helper": "does not switch it off",
		"p.TestAsks":              "does not switch it off",
		"p.TestSoak":              "is for a soak only",
		"p.TestNone":              "there is no such test",
		"q.TestAlone":             "there is no such test",
		"TestAlone":               "is not folder.Test",
	} {
		found := uncontrolled(dir, []string{"A"}, map[string]string{"A": control})
		if want == "" {
			require.Empty(t, found, control)
			continue
		}
		require.Len(t, found, 1, control)
		require.Contains(t, found[0], want, control)
	}
	require.Empty(t, uncontrolled(dir, []string{"B"}, map[string]string{"B": "p.TestTable/by a helper"}))
	require.Equal(t, []string{"B has no control", "C is no switch"},
		uncontrolled(dir, []string{"A", "B"}, map[string]string{"A": "p.TestAlone", "C": "p.TestAlone"}))
}

// uncontrolled is what is wrong with the controls of switches.
func uncontrolled(root string, switches []string, controls map[string]string) (wrong []string) {
	folders := make(map[string]folderTests)
	for _, name := range switches {
		control, ok := controls[name]
		if !ok {
			wrong = append(wrong, name+" has no control")
			continue
		}
		folder, test, found := strings.Cut(control, ".")
		if !found {
			wrong = append(wrong, fmt.Sprintf("the control of %s, %s, is not folder.Test", name, control))
			continue
		}
		if folders[folder] == nil {
			folders[folder] = testsIn(filepath.Join(root, filepath.FromSlash(folder)))
		}
		if why := folders[folder].refuse(test, name); why != "" {
			wrong = append(wrong, fmt.Sprintf("the control of %s, %s: %s", name, control, why))
		}
	}
	for name := range controls {
		if !slices.Contains(switches, name) {
			wrong = append(wrong, name+" is no switch")
		}
	}
	return wrong
}

// folderTests are the declarations in the tests of a folder, by their names: functions, methods, variables.
type folderTests map[string][]ast.Node

func testsIn(dir string) folderTests {
	all := make(folderTests)
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			continue // the compiler says so
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				all[d.Name.Name] = append(all[d.Name.Name], d)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok {
						for _, name := range v.Names {
							all[name.Name] = append(all[name.Name], v)
						}
					}
				}
			}
		}
	}
	return all
}

// refuse is why a test, or a row of it, is no control of a switch; empty: it is one.
func (f folderTests) refuse(test, name string) string {
	test, row, isRow := strings.Cut(test, "/")
	nodes := f[test]
	if len(nodes) == 0 || !strings.HasPrefix(test, "Test") {
		return "there is no such test"
	}
	if mentions(nodes, "level", "ForSoak") {
		return "is for a soak only"
	}
	reached := f.reach(nodes)
	if isRow {
		if nodes = rowsCalled(reached, row); len(nodes) == 0 {
			return "has no row " + row
		}
		reached = f.reach(nodes)
	}
	if !mentions(reached, "defence", name) {
		return "does not switch it off"
	}
	return ""
}

// reach is nodes with all declarations of the folder that they name, directly or not. Methods are told
// apart by their names alone.
func (f folderTests) reach(nodes []ast.Node) []ast.Node {
	seen, all := make(map[string]bool), slices.Clone(nodes)
	for i := 0; i < len(all); i++ {
		ast.Inspect(all[i], func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && !seen[id.Name] {
				seen[id.Name] = true
				all = append(all, f[id.Name]...)
			}
			return true
		})
	}
	return all
}

// rowsCalled are the rows of tables that have a name, and the subtests that do.
func rowsCalled(nodes []ast.Node, name string) (rows []ast.Node) {
	named := func(e ast.Expr) bool {
		if field, ok := e.(*ast.KeyValueExpr); ok {
			e = field.Value
		}
		lit, ok := e.(*ast.BasicLit)
		return ok && lit.Value == strconv.Quote(name)
	}
	for _, node := range nodes {
		ast.Inspect(node, func(n ast.Node) bool {
			is := false
			switch n := n.(type) {
			case *ast.CompositeLit:
				is = slices.ContainsFunc(n.Elts, named)
			case *ast.CallExpr:
				is = slices.ContainsFunc(n.Args, named)
			case *ast.KeyValueExpr: // of a map
				is = named(n.Key)
			}
			if is {
				rows = append(rows, n)
			}
			return true
		})
	}
	return rows
}

// mentions reports whether nodes do something with a switch, or with a function, of a package. To ask whether
// a switch is off is nothing.
func mentions(nodes []ast.Node, of, name string) (found bool) {
	for _, node := range nodes {
		ast.Inspect(node, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if sel.Sel.Name == "Off" {
				return false
			}
			x, ok := sel.X.(*ast.Ident)
			found = found || ok && x.Name == of && sel.Sel.Name == name
			return true
		})
	}
	return found
}
