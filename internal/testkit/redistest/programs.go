package redistest

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ServersEnv names the environment variable with a directory of servers of many versions: its
// bin/*-server.
const ServersEnv = "HOLDFAST_SERVERS"

// Program is a server program that tests can start, see [Exec].
type Program struct {
	Path    string
	Name    string // such as "redis-7.0.15" or "valkey-9.1.2", for the names of subtests
	Version string // as the program says, such as "7.0.15"
	Valkey  bool
}

// Programs returns all server programs there are to test with: those in the directory that
// HOLDFAST_SERVERS names, and the one [Binary] finds if its version is not among them. Redis comes
// first, older versions before newer ones; each version stands once. A directory without a server
// in it is an error, not a reason to test less in silence.
func Programs(tb testing.TB) []Program {
	tb.Helper()
	var paths []string
	if dir := os.Getenv(ServersEnv); dir != "" {
		found, err := filepath.Glob(filepath.Join(dir, "bin", "*-server"))
		if err != nil || len(found) == 0 {
			tb.Fatalf("%s=%s: no bin/*-server in it (%v)", ServersEnv, dir, err)
		}
		paths = found
	}
	if path, ok := Binary(); ok || len(paths) == 0 {
		if !ok {
			Unavailable(tb, missing())
		}
		paths = append(paths, path)
	}
	var all []Program
	for _, path := range paths {
		p := inspect(path)
		if p.Version == "" {
			tb.Fatalf("%s --version does not name a version", path)
		}
		if !slices.ContainsFunc(all, func(q Program) bool { return p.Name == q.Name }) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Program) int {
		if a.Valkey != b.Valkey {
			return strings.Compare(a.Name, b.Name)
		}
		return compareVersions(a.Version, b.Version)
	})
	return all
}

// inspect asks a program what it is, without starting a server. It is for command lines that depend on the version;
// everything else asks the running server. Version is empty if it does not say.
func inspect(path string) Program {
	out, _ := exec.Command(path, "--version").Output() // then it does not say
	_, version, _ := strings.Cut(string(out), "v=")
	version, _, _ = strings.Cut(version, " ")
	name, valkey := "redis-", strings.HasPrefix(string(out), "Valkey")
	if valkey {
		name = "valkey-"
	}
	return Program{Path: path, Name: name + version, Version: version, Valkey: valkey}
}

// compareVersions compares dotted numbers number by number: 8.10 is after 8.6.
func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, _ := strconv.Atoi(as[i]) // what is no number counts as 0
		y, _ := strconv.Atoi(bs[i])
		if c := cmp.Compare(x, y); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(as), len(bs))
}
