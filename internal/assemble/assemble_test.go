package assemble

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestScript(t *testing.T) {
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
		Script(files, "script"))
	require.PanicsWithValue(t, "lua: unknown.lua includes nothing, but there is no part/nothing.lua",
		func() { Script(files, "unknown") })
	tooDeep := " itself, and may include nothing"
	require.PanicsWithValue(t, "lua: part/outer.lua includes inner, but is included by a part"+tooDeep,
		func() { Script(files, "deep") })
	require.PanicsWithValue(t, "lua: part/round.lua includes round, but is included by a part"+tooDeep,
		func() { Script(files, "endless") })
	require.Panics(t, func() { Script(files, "missing") })
}
