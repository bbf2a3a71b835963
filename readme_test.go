package holdfast_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadmeExampleIsTested: the README's Go code stands, line by line and in this order, in an example that is run.
func TestReadmeExampleIsTested(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	example, err := os.ReadFile("rlock/example_test.go")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.Len(t, blocks, 1)
	rest := string(example)
	for line := range strings.Lines(blocks[0][1]) {
		line = strings.TrimSpace(line)
		_, after, found := strings.Cut(rest, line)
		require.True(t, found, "not in the example, or not in this order: %s", line)
		rest = after
	}
}

// TestReadmeCommands: the two commands of the first screen are there.
func TestReadmeCommands(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, command := range []string{"go run ./cmd/holdfast demo", "./scripts/test.sh"} {
		require.Contains(t, string(readme), command)
	}
	for _, file := range []string{"cmd/holdfast/main.go", "scripts/test.sh"} {
		require.FileExists(t, file)
	}
}
