package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

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
	t.Helper()
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

// TestAControlCanFail draws a switch, and runs its control while the defence stays on: a control that passes then has
// shown no harm, so it proves nothing.
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
	t.Helper()
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
