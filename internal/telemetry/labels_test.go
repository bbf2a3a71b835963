package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKindsAreAll: every package that names a kind in its errors is in the list. A latch is held by
// nobody, and a multilock is heard of by its members.
func TestKindsAreAll(t *testing.T) {
	files, err := filepath.Glob("../../*/*.go")
	require.NoError(t, err)
	found := []string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, after, ok := strings.Cut(string(text), "kindName = \"")
		kind, _, _ := strings.Cut(after, "\"")
		if ok && kind != "latch" && kind != "multilock" {
			found = append(found, kind)
		}
	}
	require.ElementsMatch(t, Kinds, found)
}

func beforeColon(name string) string {
	class, _, _ := strings.Cut(name, ":")
	return class
}

func TestClassesAreCapped(t *testing.T) {
	c := classes{of: beforeColon, max: 3}
	require.Equal(t, "a", c.class("rlock", "a:1"))
	require.Equal(t, "a", c.class("fairlock", "a:1"), "a pair of its own")
	require.Equal(t, "b", c.class("rlock", "b:1"))
	require.Equal(t, Other, c.class("rlock", "c:1"), "the fourth pair")
	require.Equal(t, Other, c.class("fairlock", "b:1"))
	require.Equal(t, "a", c.class("rlock", "a:2"), "those who were there first stay")

	c = classes{of: beforeColon, max: 100}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				c.class("rlock", fmt.Sprint((i*7+g)%500, ":x"))
			}
		})
	}
	wg.Wait()
	require.Len(t, c.known, 100)
}

func TestClassesOfWildFunctions(t *testing.T) {
	c := classes{max: 3}
	require.Empty(t, c.class("rlock", "a"), "no function, no classes")
	c.of = func(string) string { panic("of the user's") }
	require.Equal(t, Other, c.class("rlock", "a"))
	c.of = func(string) string { return "a\xff" }
	require.Equal(t, `"a\xff"`, c.class("rlock", "a"))
	require.Len(t, c.known, 1)
}
