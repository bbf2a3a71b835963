// Command holdfast shows the library at work and runs commands while a lock is held.
package main

import (
	_ "github.com/alicebob/miniredis/v2"
	_ "github.com/holdfast-go/holdfast/rlock"
	_ "github.com/spf13/cobra"
	_ "golang.org/x/term"
	_ "golang.org/x/sync/errgroup"
)

func main() {}
