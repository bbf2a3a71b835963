package lua

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the assembled scripts to testdata")

// TestAssembled compares what the server gets with the files in testdata, in which a reviewer sees
// what a change of a part does to every script.
func TestAssembled(t *testing.T) {
	scripts := append([]*Script{Acquire, AcquireBeside, Vote, Force, FairAcquire, FairJoin, FairRelease, FairPoll, FairState, Fence,
		ElectionAnnounce, ElectionLeader, ElectionRelease, ElectionRenew, RenewMany, Many,
		RwRead, RwReadRelease, RwReadRenew, RwWrite, RwWriteRelease, RwLeave, RwState, RwForce, RwForceWriter,
		SemAcquire, SemJoin, SemRelease, SemRenew, SemPoll, SemSet, SemState, SemForce, Inspect, ForceOwner,
		LatchSet, LatchCount, LatchDelete, LatchLook}, all...)
	var want []string
	for _, s := range scripts {
		path := filepath.Join("testdata", s.Name()+".lua")
		want = append(want, path)
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(s.Text()), 0o600))
		}
		golden, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(golden), s.Text(), "%s is not up to date: go test ./lua -run TestAssembled -update",
			path)
	}
	have, err := filepath.Glob("testdata/*.lua")
	require.NoError(t, err)
	require.Subset(t, want, have, "files of scripts that are gone")
	sources, err := filepath.Glob("*.lua")
	require.NoError(t, err)
	for _, source := range sources {
		require.Contains(t, want, filepath.Join("testdata", source), "a script that is not listed above")
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
		for _, m := range include.FindAllStringSubmatch(texts[path], -1) {
			included["part/"+m[2]+".lua"] = true
		}
	}
	sets := regexp.MustCompile(`\n-- Sets:  (\w+)`)
	for _, path := range parts {
		require.True(t, included[path], "%s is included nowhere", path)
		body := statements(texts[path])
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

func TestAssemble(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	files := fstest.MapFS{
		"script.lua":     file("-- script: header\nlocal function f()\n  -- include outer\nend\n"),
		"part/outer.lua": file("-- outer: header\n-- Reads: nothing\nif x then\n  -- include inner\nend\n\nf()\n"),
		"part/inner.lua": file("-- inner: header\ng() -- kept\n"),
		"unknown.lua":    file("-- include nothing\n"),
		"deep.lua":       file("-- include whole\n"),
		"part/whole.lua": file("-- whole: header\n-- include third\n"),
		"part/third.lua": file("-- third: header\n-- include outer\n"),
		"part/round.lua": file("f()\n-- include round\n"),
		"endless.lua":    file("-- include round\n"),
	}
	require.Equal(t, "-- script: header\nlocal function f()\n  if x then\n    g() -- kept\n  end\n\n  f()\nend\n",
		assemble(files, "script"))
	require.PanicsWithValue(t, "lua: unknown.lua includes nothing, but there is no part/nothing.lua",
		func() { assemble(files, "unknown") })
	tooDeep := " itself, and may include nothing"
	require.PanicsWithValue(t, "lua: part/outer.lua includes inner, but is included by a part"+tooDeep,
		func() { assemble(files, "deep") })
	require.PanicsWithValue(t, "lua: part/round.lua includes round, but is included by a part"+tooDeep,
		func() { assemble(files, "endless") })
	require.Panics(t, func() { assemble(files, "missing") })
}
