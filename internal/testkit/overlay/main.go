// Command overlay writes copies of the library's files in which single defences can be switched off,
// and prints the name of the file that has go build use them:
//
//	O=$(go run ./internal/testkit/overlay) && go test -race -count=1 -overlay "$O" ./...
//
// The two steps are apart because go test takes an empty -overlay for none.
//
// The library is free of switches that way: what users build has no condition that only a test needs. Which text becomes which
// is in the table of rows.go. A text that does not occur exactly once is an error, and nothing is written: then the code has
// changed, and its row must follow. package defence has the switches.
//
// Not promised: line numbers. Those of a copy may differ from its original's by what a row adds, and by the formatting of that.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	module   = "github.com/holdfast-go/holdfast"
	switches = "internal/testkit/defence"
	built    = switches + "/built.go"
	folder   = "bin/_overlay" // which ./... leaves out
)

func main() {
	root, err := findRoot()
	if err == nil {
		err = write(root, filepath.Join(root, folder), rows(defences))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "overlay:", err)
		os.Exit(1)
	}
	fmt.Println(filepath.Join(root, folder, "overlay.json"))
}

// findRoot is the folder of the library's module, in or above which the command was started.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(built))); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not in the repository; start it in its root")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// write puts the copies and the list of them into a folder.
func write(root, folder string, rows []row) error {
	texts, err := mutate(root, rows)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	replace := make(map[string]string)
	for file, text := range texts {
		formatted, err := format.Source([]byte(text))
		if err != nil {
			return fmt.Errorf("%s, with its rows: %w", file, err)
		}
		to := filepath.Join(folder, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, formatted, 0o600); err != nil {
			return err
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = to
	}
	if err := sweep(folder, replace); err != nil {
		return err
	}
	list, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "overlay.json"), append(list, '\n'), 0o600)
}

// sweep removes copies of files that have no rows any more.
func sweep(folder string, replace map[string]string) error {
	copies, err := filepath.Glob(filepath.Join(folder, "*.go"))
	keep := slices.Collect(maps.Values(replace))
	for _, path := range copies {
		if !slices.Contains(keep, path) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// mutate returns the mutated text of each file that a row names, and of the one that says that there are any.
func mutate(root string, rows []row) (map[string]string, error) {
	byFile := make(map[string][]row)
	for _, r := range rows {
		byFile[r.file] = append(byFile[r.file], r)
	}
	texts := make(map[string]string)
	var all []error
	for file, rows := range byFile {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file))) //nolint:gosec // of the table
		if err == nil {
			texts[file], err = apply(string(text), rows)
		}
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", file, err))
		}
	}
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(built)))
	if err != nil {
		all = append(all, err)
	}
	texts[built] = strings.Replace(string(text), "false", "true", 1)
	return texts, errors.Join(all...)
}

// apply makes the changes of all rows in the text of their file.
func apply(text string, rows []row) (string, error) {
	original := text
	var all []error
	for _, r := range rows {
		if n := strings.Count(original, r.text); n != 1 {
			all = append(all, fmt.Errorf("the row of %q looks for a text that occurs %d times, and not once: %q", r.defence, n, r.text))
			continue
		}
		changed := strings.Replace(text, r.text, strings.ReplaceAll(r.mutated, "OFF", "defence."+r.defence+".Off()"), 1)
		if changed == text {
			all = append(all, fmt.Errorf("the row of %q meets another row, or changes nothing: %q", r.defence, r.text))
		}
		text = changed
	}
	imports := fmt.Sprintf("; import %q", module+"/"+switches)
	if strings.Contains(text, "errors.") && !strings.Contains(text, "\"errors\"") {
		imports += "; import \"errors\""
	}
	head, rest, _ := strings.Cut(text, "\npackage ")
	name, rest, found := strings.Cut(rest, "\n")
	if !found { // without a comment before it
		name, rest, _ = strings.Cut(strings.TrimPrefix(text, "package "), "\n")
		return "package " + name + imports + "\n" + rest, errors.Join(all...)
	}
	return head + "\npackage " + name + imports + "\n" + rest, errors.Join(all...)
}
