package lua

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/assemble"
)

var update = flag.Bool("update", false, "write testdata/hashes.txt anew")

// TestAssembled compares what the server gets with a list of hashes, so that nobody changes what
// becomes of a script without seeing it. A part is in many scripts.
func TestAssembled(t *testing.T) {
	const list = "testdata/hashes.txt"
	scripts := append([]*Script{Acquire, AcquireBeside, Vote, Force, FairAcquire, FairJoin, FairRelease, FairPoll, FairState, Fence,
		ElectionAnnounce, ElectionLeader, ElectionRelease, ElectionRenew, RenewMany, Many,
		RwRead, RwReadRelease, RwReadRenew, RwWrite, RwWriteRelease, RwLeave, RwState, RwForce, RwForceWriter,
		SemAcquire, SemJoin, SemRelease, SemRenew, SemPoll, SemSet, SemState, SemForce, Inspect, ForceOwner,
		LatchSet, LatchCount, LatchDelete, LatchLook}, all...)
	lines := map[string]string{}
	for _, s := range scripts {
		lines[s.Name()] = fmt.Sprintf("%s %4d lines  %s\n", s.Hash(), strings.Count(s.Text(), "\n"), s.Name())
	}
	sources, err := filepath.Glob("*.lua")
	require.NoError(t, err)
	var now string
	for _, source := range sources {
		name := strings.TrimSuffix(source, ".lua")
		require.Contains(t, lines, name, "a script that is not listed above")
		now += lines[name]
	}
	if *update {
		require.NoError(t, os.WriteFile(list, []byte(now), 0o600))
	}
	known, err := os.ReadFile(list)
	require.NoError(t, err)
	if string(known) != now {
		t.Fatal("Scripts have changed. To see how: go run ./internal/testkit/assembled --base HEAD\n" +
			"If it is as it should be: go test ./lua -run TestAssembled -update")
	}
}

// TestParts: every part is included, and its header names what it reads, sets and replies.
func TestParts(t *testing.T) {
	parts, err := filepath.Glob("part/*.lua")
	require.NoError(t, err)
	scripts, err := filepath.Glob("*.lua")
	require.NoError(t, err)
	texts, included := map[string]string{}, map[string]bool{}
	for _, path := range append(scripts, parts...) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		texts[path] = string(text)
		for _, m := range assemble.Include.FindAllStringSubmatch(texts[path], -1) {
			included["part/"+m[2]+".lua"] = true
		}
	}
	sets := regexp.MustCompile(`\n-- Sets:  (\w+)`)
	for _, path := range parts {
		require.True(t, included[path], "%s is included nowhere", path)
		body := assemble.Statements(texts[path])
		header := strings.TrimSuffix(texts[path], body)
		require.True(t, strings.HasPrefix(header, "-- "+strings.TrimSuffix(filepath.Base(path), ".lua")+": "), path)
		require.Contains(t, header, "\n-- Reads: ", path)
		if path == "part/queue.lua" || path == "part/permits.lua" {
			continue // its functions return to their callers, and what it sets is all of it
		}
		require.Equal(t, strings.Contains(body, "return "), strings.Contains(header, "\n-- Replies "), path)
		if m := sets.FindStringSubmatch(header); m != nil {
			require.Contains(t, body, "local "+m[1]+" ", path)
		}
	}
}
