package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

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

// chapters are those of the other kinds.
var chapters = map[string]func(*story, context.Context) error{
	"rwlock": (*story).readers, "semaphore": (*story).permits, "latch": (*story).opening, "multilock": (*story).several,
	"election": (*story).leaders,
}

// tellOfFamily tells one chapter on an emulation that does harm before it runs a script. It returns
// what the demo would show.
func tellOfFamily(t *testing.T, chapter string, harm func(m *miniredis.Miniredis, script string, keys []string),
) (*story, string, error) {
	t.Helper()
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	m.Server().SetPreHook(func(_ *mini.Peer, command string, args ...string) bool {
		if command == "EVALSHA" {
			harm(m, args[0], args[2:])
		}
		return false // it is run
	})
	rdb, err := connect("redis://" + m.Addr())
	require.NoError(t, err)
	client, err := holdfast.New(rdb, nil)
	require.NoError(t, err)
	var screen bytes.Buffer
	s := &story{screen: newScreen(&screen), rdb: rdb, client: client, kin: newFamily(client, "demo"), began: time.Now(),
		start: order{Op: "start", Redis: "redis://" + m.Addr(), Name: "demo", Store: "store", Lease: demoLease()}}
	for _, m := range []**member{&s.a, &s.b, &s.c} {
		*m, err = recruit(t.Context(), s.start)
		require.NoError(t, err)
		s.crew = append(s.crew, *m)
	}
	err = chapters[chapter](s, t.Context())
	for _, m := range s.crew {
		m.kill()
	}
	require.NoError(t, client.Close(context.Background()))
	require.NoError(t, rdb.Close())
	return s, screen.String(), err
}

// The controls of what [TestDemo] says of the kinds: a server that breaks what one promises is found out.
func TestDemoFailsOnABrokenFamily(t *testing.T) {
	level.ForAll(t)
	t.Parallel()
	before := func(script *lua.Script, harm func(m *miniredis.Miniredis, keys []string)) func(*miniredis.Miniredis, string,
		[]string) {
		return func(m *miniredis.Miniredis, called string, keys []string) {
			if called == script.Hash() {
				harm(m, keys)
			}
		}
	}
	for name, c := range map[string]struct {
		chapter, says string
		harm          func(m *miniredis.Miniredis, script string, keys []string)
	}{
		"readers do not wait for a writer": {
			"rwlock", "FAILED  B waits to write: new readers wait",
			before(lua.RwRead, func(m *miniredis.Miniredis, _ []string) { m.Del(keys.ForReadWrite("demo:rw").Writers) }),
		},
		"permits are forgotten": {
			"semaphore", "FAILED  A takes two, C takes one; B tries",
			before(lua.SemAcquire, func(m *miniredis.Miniredis, _ []string) {
				k := keys.ForPermits("demo:permits")
				m.Del(k.Name)
				m.Del(k.Ends)
			}),
		},
		"a latch opens too early": {
			"latch", "FAILED  A and C wait; one of two has counted",
			before(lua.LatchCount, func(m *miniredis.Miniredis, _ []string) { m.Del("demo:latch") }),
		},
		"a lock is given away": {
			"multilock", "FAILED  y is taken: A tries both, and has none",
			before(lua.Acquire, func(m *miniredis.Miniredis, _ []string) { m.Del("demo:y") }),
		},
		"leadership is not handed on": {
			"election", "FAILED  A resigns: B leads at once",
			before(lua.ElectionRelease, func(m *miniredis.Miniredis, _ []string) {
				k := keys.For("demo:election")
				m.Del(k.Queue)
				m.Del(k.Deadlines)
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, screen, err := tellOfFamily(t, c.chapter, c.harm)
			require.NotZero(t, s.failed, "%s%v", screen, err)
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

// tellOfMasters tells the chapter of the quorum, on emulations that were changed. It returns what
// the demo would show.
func tellOfMasters(t *testing.T, change func([]*master)) (*story, string, error) {
	t.Helper()
	masters, err := startMasters(t.Context(), true)
	require.NoError(t, err)
	t.Cleanup(func() { stopMasters(masters) })
	var screen bytes.Buffer
	s := &story{screen: newScreen(&screen), start: order{Name: "demo"}}
	for _, m := range masters {
		srv := *m.server // change may take away what stops it
		s.masters = append(s.masters, &master{server: &srv, rdb: m.rdb})
	}
	change(s.masters)
	err = s.onMasters(t.Context())
	for _, m := range s.crew {
		m.kill()
	}
	return s, screen.String(), err
}

// The controls of what [TestDemo] says of masters: it is seen to be wrong where it is.
func TestDemoFailsOnBrokenMasters(t *testing.T) {
	level.ForAll(t)
	t.Parallel()
	t.Run("they survive", func(t *testing.T) {
		_, screen, err := tellOfMasters(t, func(masters []*master) {
			for _, m := range masters {
				m.stop = func() {}
			}
		})
		require.ErrorContains(t, err, "no word from the worker", "that its lock is lost")
		require.Contains(t, screen, "D unlocks, and E gets it")
	})
	t.Run("they die together", func(t *testing.T) {
		_, screen, err := tellOfMasters(t, func(masters []*master) {
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
		_, screen, err := tellOfMasters(t, func(masters []*master) {
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
		s, screen, err := tellOfMasters(t, func(masters []*master) {
			rdb := masters[2].rdb
			rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
				if cmds[0].Name() == "pttl" { // the demo is about to look how long it is
					rdb.PExpire(t.Context(), cmds[0].Args()[1].(string), quorumLease()/4)
				}
				return send()
			}))
		})
		require.NoError(t, err)
		require.Equal(t, 1, s.failed)
		require.Contains(t, screen, "FAILED  a third one is killed: E is told in time")
	})
}
