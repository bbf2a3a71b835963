package topology

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// DockerEnv names the environment variable that, if it is 1, has images tested in containers.
const DockerEnv = "HOLDFAST_DOCKER"

// Line is a line of versions that the library is to be tested with.
type Line struct {
	Name  string // for subtests, such as "redis-8.0"; the names of its programs begin like this
	Image string
}

// Wanted are the lines of versions that the library says it supports.
var Wanted = []Line{
	{"redis-6", "redis:6"},
	{"redis-7", "redis:7"},
	{"redis-8.0", "redis:8"},
	{"redis-8.6", "redis:8.6"},
	{"valkey-8", "valkey/valkey:8"},
	{"valkey-9", "valkey/valkey:9"},
}

// has says whether a program belongs to the line.
func (l Line) has(p redistest.Program) bool {
	rest, ok := strings.CutPrefix(p.Name, l.Name)
	return ok && strings.ContainsAny(rest[:1], ".-") // 8.0 is not 8.06
}

// quickly leaves of the kinds what belongs to this run: in the quick level, a single server.
func quickly(t *testing.T, kinds Kind) Kind {
	if !testing.Short() || level.Soaking() {
		return kinds
	}
	if kinds&Single == 0 {
		level.ForAll(t)
	}
	return Single
}

// Each runs a test, in parallel, on each of the kinds, in a subtest for each version: a single
// server in all versions that can be had, the others in the oldest and the newest Redis and the
// newest Valkey. Containers are for single servers: the other kinds announce addresses to their clients, which from
// outside are not those of the containers, or are the same however a server is started. opts are for the processes;
// containers, which cannot follow them, are left out when there are any. The quick level has single servers only.
func Each(t *testing.T, kinds Kind, test func(t *testing.T, top Topology), opts ...redistest.Option) {
	each(t, kinds, some{containers: len(opts) == 0}, test, opts)
}

// EachOutermost is [Each] without containers, and for a single server too in the oldest and the newest Redis and the newest
// Valkey only: for what takes long, and does not depend on what a version can do.
func EachOutermost(t *testing.T, kinds Kind, test func(t *testing.T, top Topology)) {
	each(t, kinds, some{outermost: true}, test, nil)
}

// some is which servers a test is for.
type some struct{ containers, outermost bool }

func each(t *testing.T, kinds Kind, which some, test func(t *testing.T, top Topology), opts []redistest.Option) {
	t.Helper()
	ran := 0
	kinds = quickly(t, kinds)
	for kind := Single; kind <= Cluster; kind <<= 1 {
		if kinds&kind == 0 {
			continue
		}
		for _, c := range choose(t, kind, which) {
			ran++
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				if c.missing != "" {
					redistest.Unavailable(t, c.missing)
				}
				if c.image != "" {
					test(t, startContainer(t, c.name, c.image))
					return
				}
				test(t, start(t, kind, c.program, opts))
			})
		}
	}
	if ran == 0 {
		t.Fatalf("topology: %d names no kind", kinds)
	}
}

// choice is one subtest: a program, an image, or why there is none.
type choice struct {
	name    string
	program redistest.Program
	image   string
	missing string
}

// choose lists what a kind is tested with.
func choose(t *testing.T, kind Kind, which some) []choice {
	t.Helper()
	programs := redistest.Programs(t)
	dir, docker := os.Getenv(redistest.ServersEnv), os.Getenv(DockerEnv) == "1"
	if dir == "" && !docker {
		onlyLocal.Do(func() {
			t.Logf("ONLY THE LOCAL SERVER IS TESTED (%s): set %s or %s=1 for the other versions", programs[0].Name,
				redistest.ServersEnv, DockerEnv)
		})
	}
	var missing []string
	if dir != "" {
		missing = lacking(kind, programs)
	}
	if kind != Single || which.outermost {
		programs = outermost(programs)
	}
	var choices []choice
	for _, p := range programs {
		choices = append(choices, choice{name: processName(kind, p), program: p})
	}
	for _, name := range missing {
		choices = append(choices, choice{name: kind.String() + "/" + name + "/process", missing: "no program of " +
			name + " in " + dir})
	}
	if docker && which.containers && kind == Single {
		for _, l := range Wanted {
			choices = append(choices, choice{name: kind.String() + "/" + l.Name + "/container", image: l.Image})
		}
	}
	return choices
}

// onlyLocal has it said once, and not by every test.
var onlyLocal sync.Once

// lacking names the lines of Wanted, for all kinds but Single the families, of which there is no
// program.
func lacking(kind Kind, programs []redistest.Program) []string {
	var names []string
	for _, l := range Wanted {
		if kind != Single {
			l.Name, _, _ = strings.Cut(l.Name, "-")
		}
		if !slices.ContainsFunc(programs, l.has) && !slices.Contains(names, l.Name) {
			names = append(names, l.Name)
		}
	}
	return names
}

// outermost are the oldest and the newest Redis and the newest Valkey. programs is sorted.
func outermost(programs []redistest.Program) []redistest.Program {
	valkeys := slices.IndexFunc(programs, func(p redistest.Program) bool { return p.Valkey })
	if valkeys < 0 {
		valkeys = len(programs)
	}
	var out []redistest.Program
	if valkeys > 0 {
		out = append(out, programs[0])
	}
	if valkeys > 1 {
		out = append(out, programs[valkeys-1])
	}
	if valkeys < len(programs) {
		out = append(out, programs[len(programs)-1])
	}
	return out
}

// EachLocal is [Each] with the local server only: for what need not be shown on every version.
func EachLocal(t *testing.T, kinds Kind, test func(t *testing.T, top Topology)) {
	kinds = quickly(t, kinds)
	local := redistest.Shared(t)
	programs := redistest.Programs(t)
	i := slices.IndexFunc(programs, func(p redistest.Program) bool {
		return p.Version == local.Version() && p.Valkey == local.IsValkey()
	})
	for kind := Single; kind <= Cluster; kind <<= 1 {
		if kinds&kind != 0 {
			t.Run(processName(kind, programs[i]), func(t *testing.T) {
				t.Parallel()
				test(t, start(t, kind, programs[i], nil))
			})
		}
	}
}
