package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// report is the document of "doctor --json".
type doctorReport struct {
	Redis    string
	LeaseMS  int64 `json:"lease_ms"`
	Worst    string
	Findings []struct{ Check, Server, Level, Found, Means, Remedy, Command string }
}

func (r doctorReport) level(check string) (levels []string) {
	for _, f := range r.Findings {
		if f.Check == check {
			levels = append(levels, f.Level)
		}
	}
	return levels
}

// TestDoctor: on servers with and without flaws, the document has the findings and the exit code is
// that of the worst; the servers are as they were. How busy the machine is decides about two of the
// checks, so the code is compared with the document's own word.
func TestDoctor(t *testing.T) {
	t.Parallel()
	well := redistest.Start(t, redistest.Args("--appendonly", "yes", "--appendfsync", "always"))
	hidden := user(t, well, "orders", "resetkeys ~*orders:* -info -config")
	masters := redistest.StartMasters(t, 2)
	cases := map[string]struct {
		args []string
		want map[string]string // level of a check
		code int               // -1: that of the document
	}{
		"well": {[]string{"--redis", "redis://" + well.Addr()}, map[string]string{"persistence": "ok",
			"permissions": "ok", "life": "ok"}, -1},
		"hidden": {[]string{"--redis", hidden, "--prefix", "orders:"},
			map[string]string{"eviction": "unknown", "persistence": "unknown", "life": "ok", "messages": "ok"}, -1},
		"a short lease": {[]string{"--lease", "100ms", "--redis", "redis://" + well.Addr()},
			map[string]string{"timeouts": "error"}, exitError},
		"one master twice": {[]string{"--redis", "redis://" + masters[0].Addr(), "--redis", "redis://" + masters[1].Addr(),
			"--redis", masters[0].Addr()},
			map[string]string{"masters": "error"}, exitError},
	}
	programs := map[string]*program{}
	for what, c := range cases { // each takes a second: all at once
		programs[what] = start(t, nil, append([]string{"doctor", "--json"}, c.args...)...)
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			p := programs[what]
			code := p.end()
			var r doctorReport
			require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &r), p.stdout.String()+p.stderr.String())
			for check, level := range c.want {
				require.Contains(t, r.level(check), level, "%s: %s", check, p.stdout.String())
			}
			require.Equal(t, map[string]int{"ok": 0, "note": 0, "warning": 1, "error": 2, "unknown": 3}[r.Worst], code)
			if c.code >= 0 {
				require.Equal(t, c.code, code)
			}
			require.NotContains(t, p.stdout.String(), "secret")
			require.Empty(t, p.stderr.String())
		})
	}
	for _, srv := range append(masters, well) {
		require.Equal(t, []any{}, srv.Command(t, "KEYS", "*"))
	}
}

// TestDoctorScreen: a line of the text fits a terminal of 80 columns, begins with its level or is
// indented, and has no colour where there is no terminal.
func TestDoctorScreen(t *testing.T) {
	d := diagnosis{Redis: "redis://a, redis://b", LeaseMS: 30000, Worst: doctor.Error, Findings: []doctor.Finding{
		{Check: "permissions", Server: "127.0.0.1:7000", Level: doctor.Error, Found: strings.Repeat("refused ", 20),
			Means: strings.Repeat("nothing works ", 9), Remedy: strings.Repeat("+hset ", 30)},
		{Check: "role", Server: "127.0.0.1:7001", Level: doctor.OK, Found: "a master"},
	}}
	var out bytes.Buffer
	require.NoError(t, d.print(newScreen(&out)))
	text := out.String()
	require.Contains(t, text, "for locks with a lease of 30s\n")
	require.Contains(t, text, "error    permissions  127.0.0.1:7000: refused")
	require.Contains(t, text, "ok       role         127.0.0.1:7001: a master\n")
	require.Contains(t, text, "\n                      remedy: +hset")
	require.True(t, strings.HasSuffix(text, "\n1 error, 1 ok\n"), text)
	require.NotContains(t, text, "\x1b")
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), columns, line)
	}
}

// TestDoctorOfTheSilent: a server that accepts connections and says nothing does not answer.
func TestDoctorOfTheSilent(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Pause()
	p := start(t, nil, "doctor", "--redis",
		"redis://"+srv.Addr()+"?read_timeout=1s&max_retries=-1")
	require.Equal(t, exitNoServer, p.end(), p.stderr.String())
	require.Contains(t, p.stderr.String(), "is it running")
	require.Empty(t, p.stdout.String())
	srv.Resume()
	require.Equal(t, []any{}, srv.Command(t, "KEYS", "*"))
}
