package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
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

// reach is nodes with all declarations of the folder that they reach by name. Methods are told apart by names alone.
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

// mentions: nodes do something with a switch, or with a function, of a package. To ask if a switch is off is nothing.
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

const root = "../../.."

// TestEachRowFindsItsText: a row whose text has changed must change with it.
func TestEachRowFindsItsText(t *testing.T) {
	texts, err := mutate(root, rows(defences))
	require.NoError(t, err)
	for file, text := range texts {
		_, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		require.NoError(t, err, "without a defence it is no Go")
	}
	require.Contains(t, texts[built], "Built = true")
}

// TestEachSwitchHasARow: a switch that nothing asks would have its test show nothing.
func TestEachSwitchHasARow(t *testing.T) {
	texts, err := mutate(root, rows(defences))
	require.NoError(t, err)
	var asked []string
	for file, text := range texts {
		f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if of, ok := sel.X.(*ast.Ident); ok && of.Name == "defence" {
					asked = append(asked, sel.Sel.Name)
				}
			}
			return true
		})
	}
	unasked := slices.DeleteFunc(known(t), func(name string) bool { return slices.Contains(asked, name) })
	require.Empty(t, unasked, "no row asks these switches")
}

// known are the names of the switches.
func known(t *testing.T) (names []string) {
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, switches, "defence.go"), nil, 0)
	require.NoError(t, err)
	for _, d := range f.Decls {
		vars, ok := d.(*ast.GenDecl)
		if !ok || vars.Tok != token.VAR {
			continue
		}
		for _, s := range vars.Specs {
			for _, name := range s.(*ast.ValueSpec).Names {
				names = append(names, name.Name)
			}
		}
	}
	require.Greater(t, len(names), 50, "the switches have been found")
	return names
}

// TestRefusesWhatDoesNotFit: the controls of the two above, and that nothing is written then.
func TestRefusesWhatDoesNotFit(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, switches), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, built), []byte("package defence\n\nconst Built = false\n"), 0o600))
	code := "// Package p is small.\npackage p\n\nfunc f(a, b bool) bool { return a && b }\nfunc g(a bool) bool { return a }\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "p.go"), []byte(code), 0o600))
	for want, list := range map[string][]row{
		`"X" looks for a text that occurs 0 times`: {{"X", "p.go", "a || b", "OFF"}},
		"occurs 2 times": {{"X", "p.go", "return a", "return a || OFF"}},
		"meets another":  {{"X", "p.go", "a && b", "(a || OFF) && b"}, {"Y", "p.go", "{ return a && b }", "{ return OFF }"}},
		"no such file":   {{"X", "q.go", "a", "b"}},
	} {
		require.ErrorContains(t, write(dir, filepath.Join(dir, "out"), list), want)
		require.NoDirExists(t, filepath.Join(dir, "out"))
	}
	texts, err := mutate(dir, rows("p.go\n\tX: «(»a« || OFF)» &&\n\t\tb"))
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"p.go", built}, slices.Collect(maps.Keys(texts)))
	require.Contains(t, texts["p.go"], "return (a || defence.X.Off()) && b")
}

func TestMain(m *testing.M) { leak.Main(m) }

// TestAControlCanFail draws a switch and leaves its defence on: a control that passes then shows no harm and proves nothing.
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
