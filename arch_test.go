package holdfast_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/holdfast-go/holdfast"

// source is a directory of Go files, of this module or of one nested in it.
type source struct {
	dir    string // relative to the root, "." for it
	nested bool   // belongs to another module
	files  map[string]*ast.File
}

// sources parses all Go files of the repository itself, not by the go command, so that files behind build tags count too. It does so
// once, so a test must not change what it gets.
func sources(t *testing.T) []*source {
	all, err := parsedTree()
	require.NoError(t, err)
	require.Greater(t, len(all), 5, "the tree has been found")
	return all
}

var parsedTree = sync.OnceValues(func() (all []*source, err error) {
	byDir := map[string]*source{}
	var modules []string
	err = filepath.WalkDir(".", func(p string, e fs.DirEntry, err error) error {
		dir, name := filepath.ToSlash(filepath.Dir(p)), e.Name()
		switch {
		case err != nil:
			return err
		case e.IsDir() && (name != "." && name[0] == '.' || name == "testdata" || name == "bin"):
			return filepath.SkipDir
		case name == "go.mod" && dir != ".":
			modules = append(modules, dir)
		case strings.HasSuffix(name, ".go"):
			f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			if byDir[dir] == nil {
				byDir[dir] = &source{dir: dir, files: map[string]*ast.File{}}
			}
			byDir[dir].files[name] = f
		}
		return nil
	})
	for _, s := range byDir {
		s.nested = slices.ContainsFunc(modules, func(m string) bool {
			return s.dir == m || strings.HasPrefix(s.dir, m+"/")
		})
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *source) int { return strings.Compare(a.dir, b.dir) })
	return all, err
})

// places are what a look at files of the repository finds, with the file that each is in. They have to be
// those of the list, which says why each may be there; about any other it is said what is wrong.
func places(t *testing.T, list map[string]string, wrong string, in func(s *source, file string) bool,
	look func(*ast.File) []string) {
	var found []string
	for _, s := range sources(t) {
		for name, f := range s.files {
			if !in(s, name) {
				continue
			}
			for _, what := range look(f) {
				found = append(found, strings.TrimPrefix(s.dir+"/", "./")+name+" "+what)
			}
		}
	}
	for _, where := range found {
		assert.Contains(t, list, where, wrong)
	}
	for where := range list {
		assert.Contains(t, found, where, "is no more; take it off the list")
	}
}

// layer is where a package of this module stands. Imports go from a higher one to a lower.
type layer int

const (
	helpers layer = iota // internal/testkit: imported by tests only
	suites               // internal/testkit/kindtest, adaptertest: likewise; what every kind must do, as users see it
	doubles              // internal/testkit/memory: likewise; a server that is none
	internal
	events   // event: what an observer is told; data of users and of those who tell it
	base     // lua, pubsub, watchdog: know nothing of locks as users see them
	guards   // fence: what stores do with tokens
	remote   // internal/remote: one Redis, and what is sent to it
	reports  // internal/notify, internal/waitwatch: what people and the user's code are told; they see no lock
	middle   // internal/engine: who holds what
	queues   // internal/fair: what kinds share whose waiters have places at the server
	root     // the face of the engine: what users read
	watchers // internal/telemetry: what exporters of metrics share; reads the events of users
	adapters // internal/adapt: what adapters to other libraries share; sees locks as users do
	faces    // internal/operr: what the kinds share that users see
	kinds    // one package per kind of lock; any directory that is none of the above
	tools    // scripts: programs
	programs // cmd: what users install; they may depend on more
)

func layerOf(dir string) layer {
	switch first, _, _ := strings.Cut(dir, "/"); {
	case dir == "internal/testkit/kindtest", dir == "internal/testkit/adaptertest":
		return suites
	case dir == "internal/testkit/memory":
		return doubles
	case strings.HasPrefix(dir+"/", "internal/testkit/"):
		return helpers
	case dir == "internal/engine":
		return middle
	case dir == "internal/notify", dir == "internal/waitwatch":
		return reports
	case dir == "internal/fair":
		return queues
	case dir == "internal/telemetry":
		return watchers
	case dir == "internal/adapt":
		return adapters
	case dir == "internal/operr":
		return faces
	case dir == "internal/remote":
		return remote
	case first == "internal":
		return internal
	case first == "lua", first == "pubsub", first == "watchdog":
		return base
	case first == "fence":
		return guards
	case dir == "event":
		return events
	case dir == ".":
		return root
	case first == "scripts":
		return tools
	case first == "cmd":
		return programs
	}
	return kinds
}

// ofScripts reports whether the helpers in dir are made for the scripts and may name them. The others must not: lua uses them.
func ofScripts(dir string) bool {
	return dir == "internal/testkit/mutant" || strings.HasPrefix(dir, "internal/testkit/model/")
}

// ownBackend reports whether the kind in dir has an idea of its own of what a server is: then it listens and renews itself.
func ownBackend(dir string) bool { return dir == "redlock" }

// external are the modules that the library may import, and why.
var external = map[string]string{
	"github.com/redis/go-redis/v9": "the client that users hand us",
	"github.com/google/uuid":       "client ids in Redisson's form",
	"golang.org/x/sync":            "what the standard library lacks",
}

// forbidden says why the package in directory from must not import the path to, empty if it may. It is not for tests.
func forbidden(from, to string) string {
	if !strings.HasPrefix(to+"/", module+"/") {
		if layerOf(from) == programs {
			return "" // a module of its own: users of the library do not get its dependencies
		}
		return forbiddenOutside(to)
	}
	dir := strings.TrimPrefix(strings.TrimPrefix(to, module), "/")
	if dir == "" {
		dir = "."
	}
	f, d := layerOf(from), layerOf(dir)
	switch {
	case f == helpers:
		if d == helpers || d == internal || dir == "lua" && ofScripts(from) {
			return ""
		}
		return "what tests lean on must not lean on what they test"
	case f == suites:
		if d == root || d == helpers || d == events {
			return ""
		}
		return "a suite for all kinds sees locks as users do, and knows neither the kinds nor what they are built on"
	case f == doubles:
		if d == root || d == middle || d == remote || d == base || d == internal {
			return ""
		}
		return "a double stands in for Redis below the engine, and knows no kind"
	case d == helpers || d == suites || d == doubles:
		return "servers, faults and leak checks are for tests; users would link them into their services"
	case f == events:
		return "what an observer is told is data; it knows nothing of who tells it"
	case f == programs:
		return ""
	case f == tools:
		return "scripts must run when the library does not build"
	case f == guards && (d == root || d == middle || d == remote || d == kinds || d == base && dir != "lua" ||
		dir == "internal/kind"):
		return "a guard is the store's, which knows tokens and no locks: whoever only writes needs none"
	case d == events:
		if f == reports || f == middle || f == root || f == watchers {
			return ""
		}
		return "only who tells of events, or hears of them, names them"
	case d == watchers:
		return "what exporters make of events is theirs; the library tells of events and counts nothing"
	case f == watchers && d != root && dir != "watchdog" && dir != "internal/printable":
		return "an exporter hears what every observer hears, and knows the reasons of a loss; it sees nothing inside"
	case d == adapters:
		return "what other libraries make of locks is their adapters' affair; the library knows of none"
	case d == faces && f != kinds:
		return "what users see of a kind is for its package to say"
	case f == adapters && d != root:
		return "an adapter takes locks of any kind, as users do"
	case d == guards:
		return "what stores do with tokens is up to them; the library grants tokens and does not depend on it"
	case f == reports && (d == middle || d == root):
		return "what is told of locks sees them through what the engine gives it"
	case d == reports && f != reports && f != middle:
		return "only the engine has something to tell"
	case f == base && d == base:
		return "lua, pubsub and watchdog are each understood and tested alone; what joins them belongs in the engine"
	case f == remote && (d == middle || d == root):
		return "what is sent to one Redis knows nothing of who waits and who holds; the engine does"
	case f == base && (d == remote || d == middle || d == root):
		return "the engine is built on lua, pubsub and watchdog; what they share with it belongs in internal"
	case f == middle && d == root:
		return "the root is the face of the engine; what users see is converted there"
	case d == queues && f < queues:
		return "whether waiters queue at the server is the kinds' affair, of which nothing below them knows"
	case f == queues && d == root:
		return "the root is the face of the engine; kinds convert what users see"
	case f == queues && dir == "watchdog":
		return "a queue says who is next; renewing is the engine's, the same for all kinds"
	case f == kinds && d == kinds:
		return "kinds are independent of each other; what two of them share belongs in internal"
	case d == kinds:
		return "nothing below the kinds may know which kinds there are, so that one can be added without changing them"
	case f == root && d != middle && dir != "internal/errs":
		return "the root holds what users read, and nothing else; what works belongs in internal/engine"
	case f == internal && (d == remote || d == middle || d == root):
		return "other internal packages are below the engine; pass in what they need"
	case f == internal && d == base && dir != "lua":
		return "internal packages are below pubsub and watchdog; only the scripts' calls are data that they may name"
	case f == kinds && d == base && dir != "lua" && !ownBackend(from):
		return "a kind that one server grants brings scripts; waiting and renewing are the engine's, the same for all kinds"
	case f == base && d == internal && dir == "internal/kind":
		return "internal/kind describes locks, of which lua, pubsub and watchdog know nothing"
	}
	return ""
}

func forbiddenOutside(to string) string {
	first, _, _ := strings.Cut(to, "/")
	switch {
	case to == "testing" || strings.HasPrefix(to, "testing/"):
		return "testing registers flags in every program that links it"
	case !strings.Contains(first, "."):
		return "" // standard library
	}
	for m := range external {
		if to == m || strings.HasPrefix(to, m+"/") {
			return ""
		}
	}
	return "users get every dependency of ours; only go-redis, uuid and x/sync are worth that"
}

// TestImportsGoDownwards: no package imports a package above it. The test kit may import testing and goleak, not what it tests.
func TestImportsGoDownwards(t *testing.T) {
	for _, s := range sources(t) {
		forTests := layerOf(s.dir) == helpers || layerOf(s.dir) == suites
		if s.nested && layerOf(s.dir) != programs && !forTests {
			continue // nested modules use the library as anybody does, and some of them are for tests only
		}
		for name, f := range s.files {
			if strings.HasSuffix(name, "_test.go") && !forTests {
				continue
			}
			for _, spec := range f.Imports {
				to, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				why := forbidden(s.dir, to)
				if why != "" && (!forTests || strings.HasPrefix(to, module)) {
					t.Errorf("%s imports %s: %s", path.Join(s.dir, name), to, why)
				}
			}
		}
	}
}

// The control: the rules do refuse, each for its reason, and allow what there is. "a>b" is that package a imports package b.
func TestTheRulesRefuseAndAllow(t *testing.T) {
	for why, edges := range map[string]string{
		"understood and tested alone": "lua>pubsub watchdog>lua",
		"built on lua":                "pubsub>. lua>internal/engine pubsub>internal/remote",
		"know nothing":                "lua>internal/kind",
		"which kinds there are": "lua>rlock .>fairlock internal/kind>rlock internal/engine>redlock " +
			"internal/fair>fairlock",
		"below the engine":          "internal/kind>. internal/master>internal/engine internal/queue>internal/remote",
		"the engine does":           "internal/remote>internal/engine",
		"face of the engine":        "internal/engine>.",
		"what users read":           ".>internal/remote .>lua .>internal/queue .>internal/fair",
		"below pubsub and watchdog": "internal/task>watchdog",
		"independent of each other": "rlock>fairlock redlock>rlock",
		"the same for all kinds": "rlock>watchdog rlock>pubsub fairlock>watchdog fairlock>pubsub " +
			"internal/fair>watchdog",
		"kinds convert":     "internal/fair>.",
		"the kinds' affair": "internal/engine>internal/fair internal/kind>internal/fair",
		"for tests": ".>internal/testkit/redistest fence>internal/testkit/mutant lua>internal/testkit/model/plain " +
			"redlock>internal/testkit/unheard cmd/holdfast>internal/testkit/leak rlock>internal/testkit/faultproxy " +
			"internal/queue>internal/testkit/leak rlock>internal/testkit/kindtest rlock>internal/testkit/memory",
		"lean on": "internal/testkit/redistest>. internal/testkit/redistest>lua internal/testkit/model>lua " +
			"internal/testkit/mutant>rlock",
		"knows neither": "internal/testkit/kindtest>rlock internal/testkit/kindtest>lua " +
			"internal/testkit/adaptertest>rlock",
		"knows no kind":         "internal/testkit/memory>rlock",
		"is data":               "event>. event>internal/errs",
		"names them":            "internal/remote>event rlock>event pubsub>event internal/kind>event",
		"counts nothing":        "internal/engine>internal/telemetry rlock>internal/telemetry .>internal/telemetry",
		"sees nothing inside":   "internal/telemetry>internal/engine internal/telemetry>rlock",
		"knows of none":         "rlock>internal/adapt",
		"for its package":       "internal/engine>internal/operr .>internal/operr internal/fair>internal/operr",
		"of any kind":           "internal/adapt>rlock internal/adapt>internal/engine",
		"what the engine gives": "internal/waitwatch>internal/engine internal/notify>.",
		"has something to tell": "rlock>internal/notify internal/remote>internal/waitwatch internal/fair>internal/notify",
		"tokens and no locks": "fence>. fence>rlock fence>pubsub fence>internal/kind fence>internal/remote " +
			"fence>internal/engine",
		"up to them":      "rlock>fence internal/engine>fence",
		"does not build":  "scripts>lua",
		"registers flags": ".>!testing .>!testing/synctest",
		"only go-redis": "rlock>!github.com/stretchr/testify lua>!github.com/redis/go-redis/v90 " +
			"lua>!github.com/holdfast-go/holdfas",
		"": // allowed
		".>internal/engine .>internal/errs .>event internal/engine>internal/waitwatch " +
			"internal/engine>event internal/notify>event internal/telemetry>event internal/testkit/kindtest>event " +
			"internal/waitwatch>internal/notify internal/notify>watchdog " +
			".>!golang.org/x/sync/errgroup .>!github.com/google/uuid " +
			"internal/engine>internal/remote internal/engine>lua internal/engine>pubsub internal/engine>watchdog " +
			"internal/engine>internal/kind internal/engine>internal/held internal/engine>internal/master " +
			"internal/remote>watchdog internal/kind>lua pubsub>internal/task lua>!fmt lua>!github.com/redis/go-redis/v9 " +
			"rlock>. rlock>internal/engine rlock>internal/operr internal/operr>. fairlock>lua fairlock>internal/fair internal/fair>pubsub " +
			"internal/fair>internal/remote internal/fair>internal/engine redlock>pubsub redlock>watchdog redlock>lua " +
			"redlock>internal/remote redlock>internal/keys redlock>internal/kind fence>lua fence>internal/keys " +
			"fence>internal/held internal/telemetry>. internal/telemetry>watchdog internal/adapt>. cmd/holdfast>fence " +
			"cmd/holdfast>!example.org/words internal/testkit/faultproxy>internal/testkit/redistest " +
			"internal/testkit/mutant>lua internal/testkit/memory>internal/engine internal/testkit/memory>. " +
			"internal/testkit/kindtest>. internal/testkit/adaptertest>internal/testkit/redistest " +
			"internal/testkit/model/plain>lua",
	} {
		for edge := range strings.FieldsSeq(edges) {
			from, to, _ := strings.Cut(edge, ">")
			if said := forbidden(from, target(to)); why == "" {
				require.Empty(t, said, edge)
			} else {
				require.Contains(t, said, why, edge)
			}
		}
	}
}

// target spells out an import path; "!" marks one that is not of this module.
func target(to string) string {
	if outside, ok := strings.CutPrefix(to, "!"); ok {
		return outside
	}
	return path.Join(module, to)
}

func TestEachPackageHasOneComment(t *testing.T) {
	for _, s := range sources(t) {
		var with []string
		for name, f := range s.files {
			if f.Doc != nil {
				with = append(with, name)
			}
		}
		if slices.Sort(with); len(with) != 1 {
			t.Errorf("%s: package comments in %d files %v; there must be exactly one, so that there is one place to read", s.dir, len(with), with)
		}
	}
}

func TestEachPackageWithTestsLooksForLeaks(t *testing.T) {
	for _, s := range sources(t) {
		tests, mains := 0, 0
		for name, f := range s.files {
			if strings.HasSuffix(name, "_test.go") {
				tests++
				mains += leakChecks(f)
			}
		}
		if tests > 0 && mains != 1 {
			t.Errorf("%s: %d TestMain that call leak.Main or redistest.Main; there must be one, or goroutines leak unnoticed", s.dir, mains)
		}
	}
}

// leakChecks counts the calls of leak.Main or redistest.Main (in redistest itself: Main) in functions TestMain.
func leakChecks(f *ast.File) (n int) {
	ast.Inspect(f, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			return node.Name.Name == "TestMain" && node.Recv == nil
		case *ast.CallExpr:
			sel, ok := node.Fun.(*ast.SelectorExpr)
			if ok && sel.Sel.Name == "Main" && is(sel.X, "leak", "redistest") ||
				f.Name.Name == "redistest" && is(node.Fun, "Main") {
				n++
			}
		}
		return true
	})
	return n
}

// parsed is a file of a package x with a text.
func parsed(t *testing.T, text string) *ast.File {
	f, err := parser.ParseFile(token.NewFileSet(), "x_test.go", "package x\n"+text, 0)
	require.NoError(t, err, text)
	return f
}

// The control: a TestMain that only runs the tests does not count.
func TestLeakChecksAreTold(t *testing.T) {
	for body, want := range map[string]int{"leak.Main(m)": 1, "redistest.Main(m)": 1, "m.Run()": 0,
		"other.Main(m)": 0} {
		require.Equal(t, want, leakChecks(parsed(t, "func TestMain(m *testing.M) { "+body+" }")), body)
	}
}

// What users install with go install must have no replace line.
func TestWhatUsersInstallHasNoReplace(t *testing.T) {
	adapters, err := filepath.Glob("adapters/*/go.mod")
	require.NoError(t, err)
	require.NotEmpty(t, adapters)
	for _, file := range append(adapters, "go.mod", "cmd/holdfast/go.mod", "holdfastprom/go.mod", "holdfastotel/go.mod",
		"holdfasttest/go.mod", "holdfastweb/go.mod") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotContains(t, string(text), "\nreplace", "go install ...@latest refuses a module with replace: "+file)
	}
}

// TestModelsAreComputations: the models start no goroutine and share nothing, because scripts/test.sh leaves the race detector
// out of their packages. Their tests may run side by side: each scenario is a value of its own.
func TestModelsAreComputations(t *testing.T) {
	found := 0
	for _, s := range sources(t) {
		if !strings.HasPrefix(s.dir+"/", "internal/testkit/model/") {
			continue
		}
		found++
		for name, file := range s.files {
			for _, imported := range file.Imports {
				require.NotContains(t, imported.Path.Value, `"sync`, "%s/%s", s.dir, name)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				_, starts := n.(*ast.GoStmt)
				require.False(t, starts, "%s/%s starts a goroutine", s.dir, name)
				return true
			})
		}
	}
	require.GreaterOrEqual(t, found, 5)
}
