package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

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

// sceneOf is the first scene of a kind.
func sceneOf(t *testing.T, kind string) scene {
	at := slices.IndexFunc(scenes, func(s scene) bool { return strings.HasPrefix(s.title, kind+":") })
	require.GreaterOrEqual(t, at, 0, kind)
	return scenes[at]
}

// playOn plays one scene on an emulation that does harm before it runs a script. It returns what
// the demo would show.
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

// The controls of what [TestDemo] says of the kinds: a server that breaks what one promises is
// found out.
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
		"leadership is not handed on": {"election", "FAILED  A resigns: B leads at once",
			before(lua.ElectionRelease, queue.Queue, queue.Deadlines)},
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

// playOnMasters plays the scene of the redlock, on emulations that were changed. It returns what
// the demo would show.
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
