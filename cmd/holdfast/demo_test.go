//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alicebob/miniredis/v2"
	mini "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// TestDemo runs the demo as users do, on what there is.
func TestDemo(t *testing.T) {
	t.Parallel()
	emulated := "emulation of Redis (miniredis), "
	for what, c := range map[string]struct {
		env, args []string
		says      string
		quick     bool
	}{
		"private server":               {nil, nil, "started for this demo", true},
		"nothing on the PATH":          {[]string{"PATH=", serverEnv + "="}, nil, emulated + "there is no redis-server on the PATH", true},
		"emulation":                    {nil, []string{"--emulation"}, emulated + "as asked", false},
		"a server that does not start": {[]string{serverEnv + "=false"}, nil, "false did not start: it ended at once", false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if !c.quick {
				level.ForAll(t)
			}
			redistest.Shared(t) // skips, or fails in CI, where there is none
			p := runDemo(t, c.env, c.args...)
			requireGreen(t, p)
			require.Contains(t, p.stdout.String(), c.says)
		})
	}
}

// TestDemoOnUsersServers: the same on a server of the user's, behind Sentinel and on a Cluster.
func TestDemoOnUsersServers(t *testing.T) {
	t.Parallel()
	level.ForAll(t)
	for what, start := range map[string]func(t *testing.T) (address string){
		"one": func(t *testing.T) string {
			srv := redistest.Start(t)
			t.Cleanup(func() { require.Equal(t, []any{}, srv.Command(t, "KEYS", "*"), "every key is deleted") })
			return "redis://" + srv.Addr()
		},
		"cluster": func(t *testing.T) string {
			return "redis+cluster://" + strings.Join(redistest.StartCluster(t, 3, 0).Addrs(), ",")
		},
		"sentinel": func(t *testing.T) string {
			return "redis+sentinel://" + strings.Join(redistest.StartSentinel(t).Addrs(), ",") + "/" + redistest.SentinelMaster
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			requireGreen(t, runDemo(t, nil, "--redis", start(t)))
		})
	}
}

// requireGreen waits for the end of a demo that shows that all is well, on one page.
func requireGreen(t *testing.T, p *program) {
	t.Helper()
	require.Zero(t, p.end())
	screen := p.stdout.String()
	require.Contains(t, screen, "All 35 checks passed")
	require.Equal(t, 35, strings.Count(screen, "  ok  "))
	require.NotContains(t, screen, "FAILED")
	require.NotContains(t, screen, "\x1b", "no colours where there is no terminal")
	require.Empty(t, p.stderr.String())
	lines := strings.Split(strings.TrimSpace(screen), "\n")
	require.LessOrEqual(t, len(lines), 85)
	for _, line := range lines {
		if strings.Contains(strings.TrimSpace(line), " ") { // not an address, which is left whole
			require.LessOrEqual(t, utf8.RuneCountInString(line), columns, line)
		}
	}
}

// runDemo starts a demo whose temporary files are looked for at the end of the test.
func runDemo(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	tmp, err := os.MkdirTemp("", "demo-") // t.TempDir can be too long a path for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(tmp)) })
	p := start(t, func(c *exec.Cmd) { c.Env = append(append(c.Env, "TMPDIR="+tmp), env...) }, append([]string{"demo"}, args...)...)
	t.Cleanup(func() {
		if p.ProcessState == nil || p.ProcessState.ExitCode() == -1 {
			return // killed: it could not
		}
		left, err := os.ReadDir(tmp)
		require.NoError(t, err)
		require.Empty(t, left, "temporary files are left")
	})
	return p
}

// The controls: on a server that does not do what a lock needs, the demo says so and fails.
func TestDemoFailsOnABrokenServer(t *testing.T) {
	level.ForAll(t)
	t.Parallel()
	t.Run("leases never end", func(t *testing.T) {
		t.Parallel()
		m := miniredis.RunT(t) // its clock stands still
		p := runDemo(t, nil, "--redis", "redis://"+m.Addr())
		require.Equal(t, exitFailed, p.end())
		has(t, p.stdout.String(), "FAILED  the demo cannot go on", "checks FAILED.")
		require.Empty(t, m.Keys(), "cleaned up all the same")
	})
	t.Run("locks are taken away", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t)
		rdb := srv.Client(t)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				if locks := rdb.Keys(ctx, "demo-lock:*").Val(); len(locks) > 0 {
					rdb.Del(ctx, locks...)
				}
			}
		}()
		p := runDemo(t, nil, "--redis", "redis://"+srv.Addr())
		code := p.end()
		cancel()
		<-done
		require.Equal(t, exitFailed, code)
		require.Contains(t, p.stdout.String(), "FAILED")
	})
	t.Run("nobody answers", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t)
		srv.Kill()
		p := runDemo(t, nil, "--redis", "redis://:pw@"+srv.Addr())
		require.Equal(t, exitNoServer, p.end())
		require.Contains(t, p.stderr.String(), "no answer from Redis at redis://***@"+srv.Addr())
	})
}

// Ctrl-C leaves nothing behind; that workers and server have ended is seen by the end of their pipes and socket.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	redistest.Shared(t)
	for _, when := range []string{"B tries", "E tries"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			p := runDemo(t, nil)
			p.prints(t, when)
			p.diesBy(t, syscall.SIGINT)
		})
	}
}

// Keys on the server of a user are deleted also after Ctrl-C.
func TestDemoInterruptedDeletesItsKeys(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := runDemo(t, nil, "--redis", "redis://"+srv.Addr())
	p.prints(t, "B tries")
	require.NotZero(t, srv.Client(t).DBSize(context.Background()).Val())
	p.diesBy(t, syscall.SIGTERM)
	require.Zero(t, srv.Client(t).DBSize(context.Background()).Val())
}

// A demo that is killed takes its workers and its servers with it.
func TestDemoKilled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a signal for the death of a parent")
	}
	redistest.Shared(t)
	// of the masters two may have been killed by then
	for when, servers := range map[string]int{"B tries": 1, "E tries": 4} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			p := runDemo(t, nil)
			p.prints(t, when)
			sockets, err := filepath.Glob(filepath.Join(tmpOf(p), "holdfast-*", "redis.sock"))
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(sockets), servers)
			require.NoError(t, p.Process.Kill())
			require.Equal(t, -1, p.end(), "and the workers have closed their stderr")
			for _, socket := range sockets {
				requireSilence(t, socket)
			}
		})
	}
}

// requireSilence waits until nobody answers on a socket.
func requireSilence(t *testing.T, socket string) {
	t.Helper()
	rdb, err := connect("unix://" + socket + "?max_retries=-1")
	require.NoError(t, err)
	defer rdb.Close()
	eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return rdb.Ping(ctx).Err() != nil
	}, "the server has ended")
}

func tmpOf(p *program) string {
	var tmp string
	for _, v := range p.Env {
		if value, ok := strings.CutPrefix(v, "TMPDIR="); ok {
			tmp = value
		}
	}
	return tmp
}

// sceneOf is the first scene of a kind.
func sceneOf(t *testing.T, kind string) scene {
	at := slices.IndexFunc(scenes, func(s scene) bool { return strings.HasPrefix(s.title, kind+":") })
	require.GreaterOrEqual(t, at, 0, kind)
	return scenes[at]
}

// playOn plays one scene on an emulation that does harm before it runs a script. It returns what the demo would show.
func playOn(t *testing.T, kind string, harm func(m *miniredis.Miniredis, script string)) (*demoRun, string, error) {
	t.Helper()
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	m.Server().SetPreHook(func(_ *mini.Peer, command string, args ...string) bool {
		if command == "EVALSHA" {
			harm(m, args[0])
		}
		return false // it is run
	})
	at := newAddress("redis://" + m.Addr())
	rdb, err := at.open(nil)
	require.NoError(t, err)
	client, err := holdfast.New(rdb, nil)
	require.NoError(t, err)
	var out bytes.Buffer
	d := newDemoRun(t.Context(), &server{address: at}, rdb, client, newScreen(&out), "test")
	err = d.tell([]scene{sceneOf(t, kind)})
	d.cleanUp()
	require.NoError(t, client.Close(context.Background()))
	require.NoError(t, rdb.Close())
	return d, out.String(), err
}

// The controls of what [TestDemo] says of the kinds: a server that breaks what one promises is found out.
func TestDemoFailsOnABrokenFamily(t *testing.T) {
	level.ForAll(t)
	t.Parallel()
	before := func(script *lua.Script, keys ...string) func(*miniredis.Miniredis, string) {
		return func(m *miniredis.Miniredis, called string) {
			if called == script.Hash() {
				for _, key := range keys {
					m.Del(key)
				}
			}
		}
	}
	sem, queue := keys.ForPermits("demo-lock:test:permits"), keys.For("demo-lock:test:election")
	for name, c := range map[string]struct {
		kind, says string
		harm       func(m *miniredis.Miniredis, script string)
	}{
		"readers do not wait for a writer": {"rwlock", "FAILED  B waits to write: new readers wait",
			before(lua.RwRead, keys.ForReadWrite("demo-lock:test:rw").Writers)},
		"permits are forgotten": {"semaphore", "FAILED  A takes two, C takes one; B tries",
			before(lua.SemAcquire, sem.Name, sem.Ends)},
		"a latch opens too early": {"latch", "FAILED  A and C wait; one of two has counted",
			before(lua.LatchCount, "demo-lock:test:latch")},
		"a lock is given away": {"multilock", "FAILED  y is taken: A tries both, and has none",
			before(lua.Acquire, "demo-lock:test:y")},
		"leadership is taken away": {"election", "FAILED  A resigns: B leads at once",
			before(lua.ElectionRelease, queue.Name)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, screen, err := playOn(t, c.kind, c.harm)
			require.NotZero(t, d.failed, "%s%v", screen, err)
			require.Contains(t, screen, c.says)
		})
	}
}

// A remark is broken between words and stays indented.
func TestWrap(t *testing.T) {
	require.Equal(t, []string{"  one two", "  three"}, wrap("  one two three", 10))
	require.Equal(t, []string{"on", "redis://127.0.0.1:6379"}, wrap("on redis://127.0.0.1:6379", 10))
	text := strings.Repeat("word ", 40)
	lines := wrap(text, columns)
	require.Equal(t, strings.Fields(text), strings.Fields(strings.Join(lines, " ")))
	require.False(t, slices.ContainsFunc(lines, func(l string) bool { return len(l) > columns }))
}

// playOnMasters plays the scene of the redlock, on emulations that were changed. It returns what the demo would show.
func playOnMasters(t *testing.T, change func([]*master)) (_ *demoRun, screen string, err error) {
	t.Helper()
	var out bytes.Buffer
	d := &demoRun{screen: newScreen(&out), ctx: t.Context(), emulated: true, start: Request{Name: "demo"}}
	d.startMasters()
	for _, m := range d.masters {
		t.Cleanup(m.stop) // change may take away what stops it
	}
	change(d.masters)
	func() {
		defer d.catch(&err)
		d.onMasters()
	}()
	for _, w := range d.workers {
		w.kill()
	}
	for _, m := range d.masters {
		require.NoError(t, m.rdb.Close())
	}
	return d, out.String(), err
}

// The controls of what [TestDemo] says of masters: it is seen to be wrong where it is.
func TestDemoFailsOnBrokenMasters(t *testing.T) {
	level.ForAll(t)
	t.Parallel()
	t.Run("they survive", func(t *testing.T) {
		_, screen, err := playOnMasters(t, func(masters []*master) {
			for _, m := range masters {
				m.stop = func() {}
			}
		})
		require.ErrorContains(t, err, "no reply from worker E", "that its lock is lost")
		require.Contains(t, screen, "D unlocks, and E gets it")
	})
	t.Run("they die together", func(t *testing.T) {
		_, screen, err := playOnMasters(t, func(masters []*master) {
			masters[0].stop = func() {
				for _, m := range masters[1:] {
					m.stop()
				}
			}
		})
		require.Error(t, err)
		require.NotContains(t, screen, "ok      two are killed")
	})
	t.Run("one of them forgets", func(t *testing.T) {
		_, screen, err := playOnMasters(t, func(masters []*master) {
			stop := masters[1].stop
			masters[1].stop = func() {
				stop()
				masters[2].rdb.FlushAll(context.Background())
				masters[3].stop()
			}
		})
		require.Error(t, err)
		require.NotContains(t, screen, "ok      two are killed")
	})
	t.Run("the lease ends too early", func(t *testing.T) {
		d, screen, err := playOnMasters(t, func(masters []*master) {
			rdb := masters[2].rdb
			rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
				if cmds[0].Name() == "pttl" { // the demo is about to look how long it is
					rdb.PExpire(t.Context(), cmds[0].Args()[1].(string), quorumLease()/4)
				}
				return send()
			}))
		})
		require.NoError(t, err)
		require.Equal(t, 1, d.failed)
		require.Contains(t, screen, "FAILED  a third one is killed: E is told in time")
	})
}
