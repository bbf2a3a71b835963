package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const root = "../../.."

// TestPageIsFresh: docs/tests.md says what the tests say.
func TestPageIsFresh(t *testing.T) {
	want, err := appendix(root)
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(root, "docs", "tests.md"))
	require.NoError(t, err)
	if string(got) != want {
		t.Error("the tests or their comments have changed; in the root: go run ./internal/testkit/appendix >docs/tests.md")
	}
}

// TestAppendix: a line has a test's name, level and first sentence; helpers, methods and folders without tests have none.
func TestAppendix(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{
		"p/p.go": "// Package p is small. It does little.\npackage p\n",
		"p/p_test.go": `package p

// TestShort: it is so. And more.
func TestShort(t *testing.T) { helper() }

// TestVerb shows that
// it is so.
func TestVerb(t *testing.T) { level.ForAll(t) }

func TestBare(t *testing.T) { level.ForSoak(t) }

func TestMain(m *testing.M) {}

func helper() {}
`,
		"q/q.go":             "// Package q has no tests.\npackage q\n",
		"p/testdata/x/x.go":  "package x\n",
		".hidden/h_test.go":  "package h\nfunc TestHidden(t *testing.T) {}\n",
		"bin/built_test.go":  "package b\nfunc TestBuilt(t *testing.T) {}\n",
		"r/sub/only_test.go": "package sub\nfunc TestOnly(t *testing.T) {}\n",
	} {
		path = filepath.Join(dir, filepath.FromSlash(path))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	page, err := appendix(dir)
	require.NoError(t, err)
	require.Equal(t, head+"\n## p\n\nPackage p is small.\n\n* `TestBare` *soak*\n* `TestShort`: it is so.\n"+
		"* `TestVerb` *all*: shows that it is so.\n\n## r/sub\n\n* `TestOnly`\n", page)
}
