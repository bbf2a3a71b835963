package main

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// redissonSource is the worker in Java, which Maven builds on the machine that measures.
//
//go:embed redisson
var redissonSource embed.FS

// buildRedisson returns the command of a Java worker, to which the name of the contender is added.
// It is built once, in the user's cache. An error says why there is none.
func buildRedisson(ctx context.Context) ([]string, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, errors.New("no java on the PATH")
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return nil, errors.New("no mvn on the PATH")
	}
	done, err := redissonBuilt()
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(done)
	command := []string{java, "-cp", filepath.Join(dir, "redisson", "target", "*"), "holdfast.Worker"}
	if _, err := os.Stat(done); err == nil {
		return command, nil
	}
	if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, redissonSource)); err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "building the worker for Redisson with Maven; the first time it downloads what it needs")
	build := exec.CommandContext(ctx, mvn, "-q", "-B", "-Dstyle.color=never", "-f",
		filepath.Join(dir, "redisson", "pom.xml"), "package")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mvn package failed: %w: %s", err, firstError(string(out)))
	}
	return command, os.WriteFile(done, nil, 0o644)
}

// firstError is the line of Maven's output that says what is wrong; advice follows it.
func firstError(out string) string {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "[ERROR]") {
			return strings.TrimSpace(line)
		}
	}
	return tail(out)
}

// redissonBuilt is the file that says that the worker has been built from this source.
func redissonBuilt() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	stamp, err := redissonStamp()
	return filepath.Join(cache, "holdfast-bench", "redisson-"+stamp, "built"), err
}

// redissonStamp changes with the source.
func redissonStamp() (string, error) {
	h := sha256.New()
	err := fs.WalkDir(redissonSource, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := redissonSource.ReadFile(path)
		_, _ = h.Write(b) // never fails
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:12], err
}

var redissonRelease = regexp.MustCompile(`<redisson.version>([^<]+)<`)

func redissonVersion() string {
	pom, err := redissonSource.ReadFile("redisson/pom.xml")
	if err != nil {
		return "unknown"
	}
	return string(redissonRelease.FindSubmatch(pom)[1])
}
