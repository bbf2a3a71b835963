// Command assembled shows the scripts as servers get them, with their parts put in:
//
//	go run ./internal/testkit/assembled acquire release     these scripts; without names, all
//	go run ./internal/testkit/assembled --base main         what differs from the revision main
//	go run ./internal/testkit/assembled --base HEAD~3 pass  likewise, in this script only
//
// A part is in many scripts, and a diff of the files in lua does not show in which. The scripts of the
// revision are assembled by today's rules, so that only what files say makes a difference.
//
// Not promised: revisions whose files have other includes than today's.
package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/assemble"
)

func main() {
	base := flag.String("base", "", "the revision to compare with, in git's words")
	flag.Parse()
	if err := run(".", *base, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "assembled:", err)
		os.Exit(1)
	}
}

// run shows the scripts of the repository that dir is in.
func run(dir, base string, names []string, out io.Writer) error {
	root, err := git(dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	dir = strings.TrimSpace(string(root))
	now, err := scripts(os.DirFS(dir))
	if err != nil {
		return err
	}
	if base == "" {
		return show(now, names, out)
	}
	archive, err := git(dir, "archive", "--format=zip", base, "lua")
	if err != nil {
		return err
	}
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return err
	}
	then, err := scripts(files)
	if err != nil {
		return fmt.Errorf("%s: %w", base, err)
	}
	return diff(then, now, names, out)
}

// git runs a command of git's in a folder and returns what it prints.
func git(dir string, args ...string) ([]byte, error) {
	var said bytes.Buffer
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...) //nolint:gosec // git, and what the caller typed
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w\n%s", args[0], err, said.Bytes())
	}
	return out, nil
}

// scripts are the assembled scripts of a tree, by their names.
func scripts(tree fs.FS) (texts map[string]string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p) // an include that is wrong
		}
	}()
	files, err := fs.Sub(tree, "lua")
	if err != nil {
		return nil, err
	}
	paths, err := fs.Glob(files, "*.lua")
	texts = map[string]string{}
	for _, path := range paths {
		name := strings.TrimSuffix(path, ".lua")
		texts[name] = assemble.Script(files, name)
	}
	return texts, err
}

// show prints the scripts of these names, or all.
func show(texts map[string]string, names []string, out io.Writer) error {
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(texts))
	}
	for _, name := range names {
		text, ok := texts[name]
		if !ok {
			return fmt.Errorf("there is no script %s", name)
		}
		fmt.Fprint(out, text)
	}
	return nil
}

// diff prints what differs in the scripts of these names, or in all.
func diff(then, now map[string]string, names []string, out io.Writer) error {
	for _, name := range names {
		if then[name] == "" && now[name] == "" {
			return fmt.Errorf("there is no script %s", name)
		}
	}
	dir, err := os.MkdirTemp("", "assembled-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for folder, texts := range map[string]map[string]string{"then": then, "now": now} {
		if err := write(filepath.Join(dir, folder), texts, names); err != nil {
			return err
		}
	}
	cmd := exec.Command("git", "-C", dir, "diff", "--no-index", "--no-ext-diff", "--no-prefix", "then", "now") //nolint:gosec // a folder of ours
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil // there is a difference
	} else if err != nil {
		return fmt.Errorf("git diff: %w", err)
	}
	return nil
}

// write puts the scripts of these names, or all, into a folder.
func write(folder string, texts map[string]string, names []string) error {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	for name, text := range texts {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, name+".lua"), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
