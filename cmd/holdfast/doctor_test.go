package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/internal/deadlock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
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

// TestDoctorScreen: a line fits 80 columns, begins with its level or is indented, and has no colour without a terminal.
func TestDoctorScreen(t *testing.T) {
	d := diagnosis{Redis: "redis://a, redis://b", LeaseMS: 30000, Worst: doctor.Error, Findings: []doctor.Finding{
		{Check: "permissions", Server: "127.0.0.1:7000", Level: doctor.Error, Found: strings.Repeat("refused ", 20),
			Means: strings.Repeat("nothing works ", 9), Remedy: strings.Repeat("+hset ", 30)},
		{Check: "role", Server: "127.0.0.1:7001", Level: doctor.OK, Found: "a master"},
		{Check: "memory", Server: "127.0.0.1:7000", Level: doctor.Note, Found: "x", Remedy: "give it +info"},
		{Check: "memory", Server: "127.0.0.1:7001", Level: doctor.Note, Found: "x", Remedy: "give it +info"},
		{Check: "clients", Level: doctor.Note, Found: "x", Remedy: "give it +info"},
	}}
	var out bytes.Buffer
	require.NoError(t, d.print(newScreen(&out)))
	text := out.String()
	has(t, text, "for locks with a lease of 30s\n", "error    permissions  127.0.0.1:7000: refused")
	has(t, text, "ok       role         127.0.0.1:7001: a master\n", "\n                      remedy: +hset")
	require.True(t, strings.HasSuffix(text, "  x\n\nremedy for memory, clients: give it +info\n\n1 error, 3 notes, 1 ok\n"), text)
	require.Equal(t, 1, strings.Count(text, "+info"), "what helps several is said once")
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
	p := start(t, nil, "doctor", "--redis", "redis://"+srv.Addr()+"?read_timeout=1s&max_retries=-1")
	require.Equal(t, exitNoServer, p.end(), p.stderr.String())
	require.Contains(t, p.stderr.String(), "is it running")
	require.Empty(t, p.stdout.String())
	srv.Resume()
	require.Equal(t, []any{}, srv.Command(t, "KEYS", "*"))
}

// labelled is a client of that name, which looks at long waits soon.
func labelled(t *testing.T, rdb redis.UniversalClient, label string) *holdfast.Client {
	t.Helper()
	return kindtest.NewClient(t, rdb, &holdfast.Options{Label: label, LongWait: 80 * time.Millisecond})
}

// TestDoctorDeadlocks: two who wait for each other are an error, with their labels, and nobody is one when there
// are none. ls, inspect and unlock show the labels, too.
func TestDoctorDeadlocks(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	url, rdb := "redis://"+srv.Addr(), srv.Client(t)
	a, b := labelled(t, rdb, "billing@host-1"), labelled(t, rdb, "stock@host-2")
	ctx, cancel := context.WithCancel(t.Context())
	x := kindtest.Take(ctx, t, rlock.New(a, "x").Lock)
	y := kindtest.Take(ctx, t, rlock.New(b, "y").Lock)
	done := make(chan struct{}, 2)
	wait := func(ctx context.Context, m *rlock.Mutex) {
		defer func() { done <- struct{}{} }()
		_ = kindtest.Pair(ctx, m)
	}
	go wait(x.Context(), rlock.New(a, "y"))
	look := func(args ...string) (code int, out string) {
		p := start(t, nil, append(args, "--redis", url)...)
		code = p.end()
		require.Empty(t, p.stderr.String())
		return code, p.stdout.String()
	}
	code, out := look("doctor", "--deadlocks")
	require.Zero(t, code, out)
	require.Contains(t, out, "ok       deadlock     no circle among the long waits")

	go wait(y.Context(), rlock.New(b, "x"))
	var r doctorReport
	for until := time.Now().Add(patience); code != exitError && time.Now().Before(until); {
		code, out = look("doctor", "--deadlocks", "--json")
		require.NoError(t, json.Unmarshal([]byte(out), &r), out)
	}
	require.Len(t, r.Findings, 1)
	f := r.Findings[0]
	require.Equal(t, "error", r.Worst)
	require.Equal(t, "deadlock", f.Check)
	has(t, f.Found, "2 waits in a circle: ", "billing@host-1 (client "+a.ID()+`) has "x", token `, "stock@host-2", `for "x"`)
	require.Contains(t, f.Command, "holdfast unlock --force")
	_, out = look("ls")
	has(t, out, "billing@host-1", "stock@host-2")
	_, out = look("inspect", "y")
	require.Contains(t, out, "(stock@host-2)")
	code, out = look("unlock", "y", "--force", "--owner", y.Owner(), "--yes", "--json")
	require.Zero(t, code, out)
	require.Contains(t, out, `"label":"stock@host-2"`)
	cancel()
	<-done
	<-done
	code, out = look("doctor", "--deadlocks")
	require.Zero(t, code, out)
}

// TestDoctorDeadlocksHostile: what others have written into Redis harms neither a terminal nor a shell that runs the remedy.
func TestDoctorDeadlocksHostile(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	const client, name = "11111111-2222-4333-8444-555555555555", "$(touch x) it's"
	rdb, ctx := srv.Client(t), t.Context()
	require.NoError(t, rdb.HSet(ctx, name, client+":h1", 1).Err())
	require.NoError(t, rdb.PExpire(ctx, name, time.Hour).Err())
	done := make(chan struct{})
	stop, cancel := context.WithCancel(ctx)
	go func() {
		defer close(done)
		for n := uint64(1); stop.Err() == nil; n++ {
			s := deadlock.Published{Client: client, Label: "evil\x1b[2J\u202e", Number: n, EveryMS: 100, Waits: []deadlock.Wait{{
				Lock: deadlock.Lock{Kind: "rlock", Name: name}, ID: 1, Owner: client + ":h2",
				Holds: []deadlock.Hold{{Lock: deadlock.Lock{Kind: "rlock", Name: name}, Owner: client + ":h1", Token: 5}},
			}}}
			_ = rdb.Set(stop, keys.Waits(client), s.Text(), time.Minute).Err()
		}
	}()
	p := start(t, nil, "doctor", "--deadlocks", "--json", "--redis", "redis://"+srv.Addr())
	require.Equal(t, exitError, p.end(), p.stdout.String())
	var r doctorReport
	require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &r))
	require.NotContains(t, r.Findings[0].Found, "evil", "no client says this of itself")
	require.Equal(t, "holdfast unlock --force --token 5 --redis redis://"+srv.Addr()+` '$(touch x) it'\''s'`, r.Findings[0].Command)
	p = start(t, nil, "inspect", name, "--redis", "redis://"+srv.Addr())
	require.Zero(t, p.end())
	require.Contains(t, p.stdout.String(), `--owner `+client+":h1 --redis redis://"+srv.Addr()+` '$(touch x) it'\''s'`+"\n")
	cancel()
	<-done
}
