package holdfast_test

import (
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// examples are where the Go code of the documents comes from, in the order of its blocks there.
var examples = map[string][]string{
	"docs/unit-tests.md": {"holdfasttest/example_test.go"},
	"docs/how-it-works.md": {
		"integration_test/fence/example_test.go", "fence/example_test.go", "redlock/example_test.go",
	},
	"docs/migrating.md": {
		"integration_test/peers/redsync_test.go", "integration_test/peers/redsync_test.go",
		"integration_test/peers/redislock_test.go", "integration_test/peers/redislock_test.go",
		"integration_test/peers/rueidislock_test.go", "integration_test/peers/rueidislock_test.go", "integration_test/peers/rueidislock_test.go",
		"integration_test/peers/advisory_test.go", "integration_test/peers/advisory_test.go", "integration_test/peers/advisory_test.go",
	},
	"docs/operating.md": {"holdfastprom/example_test.go", "holdfastotel/example_test.go", "holdfastweb/example_test.go", "example_test.go"},
	"docs/adapters.md":  {"adapters/gocron/example_test.go"},
}

func readDoc(t *testing.T, path string) string {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// TestDocumentExamplesAreTested: the documents' Go code stands, line by line and in this order, in examples that are run.
func TestDocumentExamplesAreTested(t *testing.T) {
	for doc, files := range examples {
		text := readDoc(t, doc)
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(text, -1)
		require.Len(t, blocks, len(files), doc)
		for i, file := range files {
			require.Contains(t, text, file)
			rest := readDoc(t, file)
			for line := range strings.Lines(blocks[i][1]) {
				line = strings.TrimSpace(line)
				_, after, found := strings.Cut(rest, line)
				require.True(t, found, "not in %s, or not in this order: %s", file, line)
				rest = after
			}
		}
	}
}

// readmeProgram is the README's one block of Go code.
func readmeProgram(t *testing.T) string {
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readDoc(t, "README.md"), -1)
	require.Len(t, blocks, 1)
	return blocks[0][1]
}

// TestReadmeProgram: the README's program is formatted, compiles, and works. Only the server's address is another one.
func TestReadmeProgram(t *testing.T) {
	program := readmeProgram(t)
	formatted, err := format.Source([]byte(program))
	require.NoError(t, err)
	require.Equal(t, string(formatted), program)
	const there = `"localhost:6379"`
	require.Equal(t, 1, strings.Count(program, there))
	program = strings.Replace(program, there, strconv.Quote(redistest.Start(t).Addr()), 1)
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "run", file).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `^\S+ \S+ order 42 is mine\n$`, string(out))
}

// TestReadmeIsShort: what a newcomer reads is read in minutes. Whatever is longer belongs in docs.
func TestReadmeIsShort(t *testing.T) {
	require.LessOrEqual(t, len(strings.Fields(readDoc(t, "README.md"))), 900)
}

// TestReadmeCommands: the two commands of the first screen are there.
func TestReadmeCommands(t *testing.T) {
	readme := readDoc(t, "README.md")
	for _, command := range []string{"go run ./cmd/holdfast demo", "./scripts/test.sh"} {
		require.Contains(t, readme, command)
	}
	for _, file := range []string{"cmd/holdfast/main.go", "scripts/test.sh"} {
		require.FileExists(t, file)
	}
}

// TestDocumentLinks: what a document links to within the repository is there, headings too.
func TestDocumentLinks(t *testing.T) {
	docs, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	links := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, doc := range append(docs, "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/README.md", "examples/README.md") {
		for _, link := range links.FindAllStringSubmatch(readDoc(t, doc), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			path, heading, _ := strings.Cut(link[1], "#")
			target := filepath.Join(filepath.Dir(doc), path)
			if path == "" {
				target = doc
			}
			_, err := os.Stat(target)
			require.NoError(t, err, "%s links to %s", doc, link[1])
			if heading != "" {
				require.Contains(t, anchors(readDoc(t, target)), heading, "%s links to %s", doc, link[1])
			}
		}
	}
}

// anchors are the names by which a document's headings can be linked to.
func anchors(doc string) (list []string) {
	other := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(doc, -1) {
		list = append(list, strings.ReplaceAll(strings.ToLower(other.ReplaceAllString(heading[1], "")), " ", "-"))
	}
	return list
}

// TestSettingsAreDocumented: docs/settings.md has a heading for each field of Options and each Option.
func TestSettingsAreDocumented(t *testing.T) {
	headings := map[string]bool{}
	for _, heading := range regexp.MustCompile("(?m)^### (.*)$").FindAllStringSubmatch(readDoc(t, "docs/settings.md"),
		-1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(heading[1], -1) {
			headings[name[1]] = true
		}
	}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	kinds, err := filepath.Glob("r*lock/options.go")
	require.NoError(t, err)
	settings := map[string]bool{}
	for _, path := range append(files, kinds...) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		for _, name := range settingsIn(file) {
			settings[name] = true
		}
	}
	require.Equal(t, settings, headings)
}

// settingsIn are the fields of Options and the functions that return an Option.
func settingsIn(file *ast.File) (names []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.IsExported() && n.Type.Results.NumFields() == 1 &&
				isOption(n.Type.Results.List[0].Type) {
				names = append(names, n.Name.Name)
			}
		case *ast.TypeSpec:
			if fields, ok := n.Type.(*ast.StructType); ok && n.Name.Name == "Options" {
				for _, field := range fields.Fields.List {
					for _, name := range field.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
		return true
	})
	return names
}

func isOption(result ast.Expr) bool {
	if s, ok := result.(*ast.SelectorExpr); ok {
		result = s.Sel
	}
	name, ok := result.(*ast.Ident)
	return ok && name.Name == "Option"
}
