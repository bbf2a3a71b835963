package holdfast_test

import (
	"fmt"
	"os"
	"testing"
)

func TestZZDump(t *testing.T) {
	_, uses := usesIn(t, "internal/engine", nil)
	f, _ := os.Create("/tmp/uses.txt")
	defer f.Close()
	for _, u := range uses {
		fmt.Fprintln(f, u.from, u.to, u.name)
	}
}
