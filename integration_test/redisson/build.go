package redisson

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// errMissing says that a program of the machine is not there.
var errMissing = errors.New("not on the PATH; Debian has it in openjdk-17-jdk-headless and maven")

// source is the directory of the worker's source, which is this one.
func source() string {
	_, file, _, _ := runtime.Caller(0) //nolint:dogsled // the file is all that is wanted
	return filepath.Dir(file)
}

// build returns the command of a worker, which is built if it is not there or its source has
// changed. A second process that wants it meanwhile waits.
func build() ([]string, error) {
	for _, program := range []string{"java", "javac", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%s: %w", program, errMissing)
		}
	}
	dir := source()
	target := filepath.Join(dir, "target")
	// JVMs of tests are many and short: what makes them start fast is worth more than their speed.
	command := []string{"java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-cp", filepath.Join(target, "*"), "holdfast.Worker"}
	want, err := stamp(dir)
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "holdfast-redisson-"+hash([]byte(dir))+".lock"),
		os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := alone(lock); err != nil {
		return nil, err
	}
	built := filepath.Join(target, "built")
	if was, err := os.ReadFile(built); err == nil && string(was) == want {
		return command, nil
	}
	fmt.Fprintln(os.Stderr, "building the worker of Redisson with Maven; the first time it downloads what it needs")
	if err := os.RemoveAll(target); err != nil { // jars of another version would be on the class path
		return nil, err
	}
	mvn := exec.Command("mvn", "-q", "-B", "-Dstyle.color=never", "package")
	mvn.Dir = dir
	if out, err := mvn.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mvn package: %w\n%s", err, firstErrors(string(out)))
	}
	return command, os.WriteFile(built, []byte(want), 0o600)
}

// firstErrors are the lines of Maven's output that say what is wrong; advice follows them.
func firstErrors(out string) string {
	var lines []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "[ERROR]") && len(lines) < 5 {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// stamp changes with the source.
func stamp(dir string) (string, error) {
	var all []byte
	add := func(file string) error {
		text, err := os.ReadFile(file)
		all = append(all, text...)
		return err
	}
	err := filepath.WalkDir(filepath.Join(dir, "src"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		return add(path)
	})
	err = errors.Join(err, add(filepath.Join(dir, "pom.xml")))
	return hash(all), err
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
