//go:build ignore

// testsum reads the events of "go test -json" and prints what a person wants to see: a line per
// package, the whole output of what failed, and in any case the lines with "proof:", which are the
// figures of a run. To the file named by its argument it appends one line per test, which test.sh
// counts: "pass", "fail NAME", "level NAME" for one that belongs to another level, or "skip NAME: REASON".
// What failed is followed by lines "why TEXT", for the end of a long run, where the whole output is far
// above. Each package and test that took long has a line "took N: NAME", in seconds.
//
// It is a program and not a pipe of grep and awk because the output of tests that run at once is
// only told apart in the events.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// noted is how many seconds are long.
const noted = 3

type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64 // seconds
}

func main() {
	results, err := os.OpenFile(os.Args[1], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer results.Close()
	output := map[string]*strings.Builder{} // by package and test
	failed := map[string]bool{}             // packages with a failed test
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Println(in.Text()) // go itself complains
			continue
		}
		if e.Package == "" {
			e.Package = e.ImportPath // of a build
		}
		key, name := e.Package+" "+e.Test, strings.TrimPrefix(e.Package+"."+e.Test, "github.com/holdfast-go/")
		out := output[key]
		if out == nil {
			out = &strings.Builder{}
			output[key] = out
		}
		if e.Elapsed >= noted && !strings.Contains(e.Test, "/") {
			fmt.Fprintf(results, "took %.0f: %s\n", e.Elapsed, strings.TrimSuffix(name, "."))
		}
		switch {
		case e.Action == "output" || e.Action == "build-output":
			out.WriteString(e.Output)
			if e.Test == "" && (strings.HasPrefix(e.Output, "ok ") || strings.HasPrefix(e.Output, "FAIL\t")) {
				fmt.Print(e.Output)
			}
			if _, figures, ok := strings.Cut(e.Output, "proof:"); ok {
				fmt.Print("proof:", figures)
			}
		case e.Action == "build-fail":
			fmt.Print(out)
		case e.Test == "" && e.Action == "fail":
			if !failed[e.Package] { // did not build, panicked between tests, or left goroutines
				fmt.Print(out)
				fmt.Fprint(results, "fail ", name, "\n", why(out.String()))
			}
		case e.Test == "":
		case e.Action == "pass":
			fmt.Fprintln(results, "pass")
			delete(output, key)
		case e.Action == "fail":
			failed[e.Package] = true
			fmt.Print(out)
			fmt.Fprint(results, "fail ", name, "\n", why(out.String()))
		case e.Action == "skip" && strings.Contains(out.String(), "level: "):
			fmt.Fprintln(results, "level", name)
		case e.Action == "skip":
			fmt.Fprintf(results, "skip %s: %s\n", name, reason(out.String()))
		}
	}
	if in.Err() != nil {
		fmt.Fprintln(os.Stderr, in.Err())
		os.Exit(1)
	}
}

// ofServer is a line of a server's log, or of the word that it follows.
var ofServer = regexp.MustCompile(`^(\d+:[CMSX] |server\.go:\d+: log of )`)

// why is the beginning and the end of what a test printed before it failed, without the logs of servers: a panic
// comes first, and a storm lists its faults before what was wrong.
func why(out string) string {
	const first, last, long = 8, 20, 400
	var lines []string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "---") || ofServer.MatchString(line) {
			continue
		}
		lines = append(lines, fmt.Sprintf("why %.*s\n", long, line))
	}
	if len(lines) > first+last {
		lines = slices.Replace(lines, first, len(lines)-last, "why [...]\n")
	}
	return strings.Join(lines, "")
}

// reason is what a test printed before it was skipped, in one line.
func reason(out string) string {
	var lines []string
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "===") &&
			!strings.HasPrefix(line, "---") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}
