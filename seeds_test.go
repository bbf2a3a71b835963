package holdfast_test

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ownSources are the names of math/rand that make a source of one's own, which takes a seed, or are the
// type of one. All else draws from the source of the process, for which there is no seed.
var ownSources = []string{
	"New", "NewPCG", "NewChaCha8", "NewSource", "NewZipf", "Rand", "Source", "Source64", "PCG", "ChaCha8", "Zipf",
}

// drawsByChance are the places of the tests that do, and why no verdict depends on it.
var drawsByChance = map[string]string{
	"internal/testkit/soak/main.go rand.Uint64N":        "the seeds of a soak, each of which it prints",
	"internal/testkit/redistest/cluster.go rand.IntN":   "ports, for which test binaries that run at once should not contend",
	"internal/testkit/redistest/cluster.go rand.Uint64": "the id of a cluster, so that no other takes its nodes for its own",
}

// TestSeedsAreFixed: what tests draw is the same in each run, or a verdict would depend on chance.
// [level.Seed] and [level.Rand] are such numbers; in a soak they are new ones, and can be replayed.
func TestSeedsAreFixed(t *testing.T) {
	places(t, drawsByChance, "another number in each run; take level.Seed(t) or level.Rand(t)",
		func(s *source, file string) bool {
			in := func(folder string) bool { return strings.HasPrefix(s.dir+"/", folder+"/") }
			return !in("internal/testkit/level") &&
				(strings.HasSuffix(file, "_test.go") || in("internal/testkit") || in("integration_test"))
		}, chances)
}

// chances are the uses, in a file of tests, of numbers that nobody can repeat: those of a source without
// a seed, and seeds that the clock gave. UnixNano is always one: nothing else needs it.
func chances(f *ast.File) (found []string) {
	random := randomPackages(f)
	ast.Inspect(f, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.SelectorExpr:
			if n.Sel.Name == "UnixNano" || is(n.X, random...) && !slices.Contains(ownSources, n.Sel.Name) {
				found = append(found, strings.TrimPrefix(text(n.X)+"."+n.Sel.Name, "."))
			}
		case *ast.CallExpr:
			if fun, ok := n.Fun.(*ast.SelectorExpr); ok && is(fun.X, random...) && slices.ContainsFunc(n.Args, readsClock) {
				found = append(found, "a source with the clock's seed")
			}
		case *ast.AssignStmt:
			if slices.ContainsFunc(n.Lhs, isSeed) && slices.ContainsFunc(n.Rhs, readsClock) {
				found = append(found, "a seed of the clock's")
			}
		case *ast.ValueSpec:
			named := slices.ContainsFunc(n.Names, func(name *ast.Ident) bool { return isSeed(name) })
			if named && slices.ContainsFunc(n.Values, readsClock) {
				found = append(found, "a seed of the clock's")
			}
		case *ast.KeyValueExpr:
			if isSeed(n.Key) && readsClock(n.Value) {
				found = append(found, "a seed of the clock's")
			}
		}
		return true
	})
	return found
}

// randomPackages are the names by which a file knows math/rand.
func randomPackages(f *ast.File) (names []string) {
	for _, spec := range f.Imports {
		switch to, _ := strconv.Unquote(spec.Path.Value); {
		case to != "math/rand" && to != "math/rand/v2":
		case spec.Name != nil:
			names = append(names, spec.Name.Name)
		default:
			names = append(names, "rand")
		}
	}
	return names
}

// text is an identifier, "" for anything else.
func text(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func is(e ast.Expr, names ...string) bool { return slices.Contains(names, text(e)) }

// isSeed reports whether a variable or field is one by its name.
func isSeed(e ast.Expr) bool {
	if sel, ok := e.(*ast.SelectorExpr); ok {
		e = sel.Sel
	}
	return strings.Contains(strings.ToLower(text(e)), "seed")
}

// readsClock reports whether an expression does, of the machine or of a time.
func readsClock(e ast.Expr) (reads bool) {
	ast.Inspect(e, func(node ast.Node) bool {
		if sel, ok := node.(*ast.SelectorExpr); ok {
			reads = reads || is(sel.X, "time") && slices.Contains([]string{"Now", "Since", "Until"}, sel.Sel.Name) ||
				slices.Contains([]string{"Unix", "UnixMilli", "UnixMicro", "UnixNano", "Nanosecond"}, sel.Sel.Name)
		}
		return !reads
	})
	return reads
}

// The control: what is refused, and what is not.
func TestChancesAreTold(t *testing.T) {
	const imports = "import (\n\t\"math/rand/v2\"\n\told \"math/rand\"\n\t\"time\"\n)\n"
	for body, want := range map[string][]string{
		"rand.IntN(7)":                         {"rand.IntN"},
		"f(rand.Shuffle)":                      {"rand.Shuffle"},
		"old.Intn(7)":                          {"old.Intn"},
		"_ = time.Now().UnixNano()":            {"UnixNano"},
		"_ = begun.UnixNano()":                 {"begun.UnixNano"},
		"seed := time.Now().UnixMicro()":       {"a seed of the clock's"},
		"var mySeed = time.Since(t)":           {"a seed of the clock's"},
		"j.Seed = uint64(time.Now().Second())": {"a seed of the clock's"},
		"_ = job{Seed: t.Unix()}":              {"a seed of the clock's"},
		"old.NewSource(time.Now().Unix())":     {"a source with the clock's seed"},
		"rand.New(rand.NewPCG(uint64(t.UnixMilli()), 0))": {
			"a source with the clock's seed", "a source with the clock's seed",
		},
		"rand.New(rand.NewPCG(1, rnd.Uint64()))":               nil,
		"rand.New(rand.NewPCG(level.Seed(t), 0))":              nil,
		"f := func(rnd *rand.Rand) int { return rnd.IntN(7) }": nil,
		"score := time.Now().Add(time.Hour).UnixMilli()":       nil,
		"begun, n := time.Now(), other.IntN(7)":                nil,
	} {
		require.Equal(t, want, chances(parsed(t, imports+"func f() { "+body+" }")), body)
	}
}

// TestTestsDoNotSleep: a test waits for a condition with a deadline. Only in a testing/synctest bubble it may call Sleep.
func TestTestsDoNotSleep(t *testing.T) {
	places(t, nil, "sleeps; wait for a condition with a deadline", func(_ *source, file string) bool {
		return strings.HasSuffix(file, "_test.go") && !strings.HasSuffix(file, "synctest_test.go")
	}, sleeps)
	require.Len(t, sleeps(parsed(t, "func f() { time.Sleep(1); sleep(2) }")), 1, "the control")
}

func sleeps(f *ast.File) (found []string) {
	ast.Inspect(f, func(node ast.Node) bool {
		if n, ok := node.(*ast.SelectorExpr); ok && is(n.X, "time") && n.Sel.Name == "Sleep" {
			found = append(found, "time.Sleep")
		}
		return true
	})
	return found
}

// wallReadings are the methods of a time.Time that read the wall clock in it. All else (differences, timers, what is before
// what) goes by the monotonic one, as long as the time comes from time.Now.
var wallReadings = []string{
	"Unix", "UnixMilli", "UnixMicro", "UnixNano", "Format", "AppendFormat", "Date", "Clock", "Nanosecond",
}

// readWall are the places of the library that do, and why nothing of that reaches a server.
var readWall = map[string]string{
	"inspect/lock.go UnixMicro":            "makes a time of a token",
	"internal/grantrate/rate.go UnixMicro": "likewise",
	"inspect/reply.go UnixMicro":           "makes a time of a server's answer",
	"inspect/reply.go UnixMilli":           "likewise",
	"internal/remote/clock.go UnixMicro":   "the time in it is a server's answer",
	"internal/suspend/suspend.go UnixNano": "compares the clock with itself, to notice that the machine slept",
}

// readings are the wall readings in a file.
func readings(f *ast.File) (found []string) {
	ast.Inspect(f, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(wallReadings, sel.Sel.Name) {
				found = append(found, sel.Sel.Name)
			}
		}
		return true
	})
	return found
}

// TestNoWallClockIsSent: clients' clocks need not be set. No command has a client's wall clock in it: nothing reads it.
func TestNoWallClockIsSent(t *testing.T) {
	places(t, readWall, "reads the wall clock of a client, which may show any time", func(s *source, file string) bool {
		return !s.nested && !strings.HasPrefix(s.dir, "internal/testkit") && s.dir != "scripts" &&
			!strings.HasSuffix(file, "_test.go")
	}, readings)
}

// The control: what a reading is.
func TestWallReadingsAreTold(t *testing.T) {
	for expr, want := range map[string]int{
		"time.Now().UnixMicro()": 1, "f(t.Unix())": 1, "time.Since(t).Microseconds()": 0, "t.Sub(u)": 0,
	} {
		require.Len(t, readings(parsed(t, "var _ = "+expr)), want, expr)
	}
}
