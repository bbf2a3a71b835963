package holdfast_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// examples are where the README's blocks of Go code come from, in the order of the README.
var examples = []string{"rlock/example_test.go", "integration_test/fence/example_test.go", "fence/example_test.go",
	"redlock/example_test.go"}

// TestReadmeExamplesAreTested: the README's Go code stands, line by line and in this order, in examples that are run.
func TestReadmeExamplesAreTested(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.Len(t, blocks, len(examples))
	for i, file := range examples {
		example, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(readme), file)
		rest := string(example)
		for line := range strings.Lines(blocks[i][1]) {
			line = strings.TrimSpace(line)
			_, after, found := strings.Cut(rest, line)
			require.True(t, found, "not in %s, or not in this order: %s", file, line)
			rest = after
		}
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
