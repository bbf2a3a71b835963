package simulation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
)

// patience is within how many worlds the lack of a defence has to show.
const patience = 100

// lack is of something that the library does against faults: what sees that it is missing, and how to do without it.
type lack struct {
	check string
	name  string
	kind  history.Family
	fair  bool // shown with fair locks
	off   *defence.Switch
	edit  []redis.Hook    // or scripts that do without it
	bias  func(*Settings) // makes frequent what it is against; nil: nothing
}

func edits(script *lua.Script, pairs ...string) []redis.Hook {
	return []redis.Hook{mutant.Hook(script, pairs...)}
}

// mute is a script that tells nobody.
func mute(script *lua.Script) []redis.Hook {
	return edits(script, "local sent = redis.pcall(command, to, text)", "local sent = 0")
}

// queue is the scripts with the text of the fair queue, edited.
func queue(pairs ...string) (hooks []redis.Hook) {
	for _, script := range []*lua.Script{lua.FairAcquire, lua.FairJoin, lua.FairPoll, lua.FairRelease} {
		hooks = append(hooks, edits(script, pairs...)...)
	}
	return hooks
}

// lacks are one for each check of each kind: they test checks, and that worlds have something to see. (Defences: controls.)
var lacks = slices.Concat(
	[]lack{
		{check: "exclusion", name: "only a free lock is granted", edit: edits(lua.Acquire,
			"local fields = call('HLEN', name)", "local fields = 0")},
		{check: "wake-up", name: "a release is announced", edit: mute(lua.Release)},
		{check: "ghost", name: "KeptIdle", off: &defence.KeptIdle, bias: keeping},
		{check: "given up", name: "Resend", off: &defence.Resend, bias: replies},
		{check: "trust", name: "RepeatedGone", off: &defence.RepeatedGone, bias: replies},
		{check: "linearizability", name: "NoRetry", off: &defence.NoRetry, bias: replies},
		{check: "lease", name: "Longer", off: &defence.Longer, bias: crowd},
		{check: "overtaken", name: "Front", off: &defence.Front, bias: crowd},
		{check: "starved", name: "HeadStart", off: &defence.HeadStart, bias: apart},
		{check: "period", name: "Stay", off: &defence.Stay, bias: staying},
		{check: "observer", name: "ToldEnds", off: &defence.ToldEnds, bias: partitions},
		{check: "kinds", name: "OneKind", off: &defence.OneKind},
		{check: "left behind", name: "a lock gets a time to live", edit: edits(lua.Acquire,
			"local limited = redis.pcall('PEXPIRE', name, lease)", "local limited")},
		{check: "foreign", name: "what is no lock is in the way", bias: visited, edit: edits(lua.Acquire,
			"local fields = call('HLEN', name)", "local fields = 0")},
		{check: "refusal", name: "says what is in the way", bias: visited, edit: edits(lua.Acquire,
			"redis.pcall('HGETALL', name)", "{}")},
		{check: "linearizability", name: "tokens go by the clock too", bias: oblivion, edit: edits(lua.Acquire,
			"local limit, last = ARGV[6], nil",
			"local limit, last = ARGV[6], nil\ntoken = string.format('%016.0f', (tonumber(call('GET', tokens)) or 0) + 1)")},
		{check: "told", name: "the owner only renews", bias: collecting, edit: edits(lua.RenewMany,
			"call('HEXISTS', name, ARGV[1]) == 1", "true")},
		{check: "fifo", name: "Listening", fair: true, off: &defence.Listening, bias: newcomers},
		{check: "claims", name: "who lets a claim lapse is passed over", fair: true, bias: fleets,
			edit: queue("if score > past then break end\n", "do break end\n")},
		{check: "work", name: "the dead in front are looked at once", fair: true, bias: fleets, edit: queue("local function head()\n",
			"local function head()\n  for i = 1, call('LLEN', queue) do call('LINDEX', queue, i - 1) end\n")},
	},
	of(history.ReadWrite, readersAndWriters,
		lack{check: "upgrade", name: "who reads is refused to write", off: &defence.Upgrade},
		lack{check: "exclusion", name: "a reader looks for a writer", edit: edits(lua.RwRead,
			"if mode ~= 'read' and not held[3] then", "if false then")},
		lack{check: "turns", name: "a reader waits for one that waits to write", edit: edits(lua.RwRead,
			"if writer then return", "if false then return")},
		lack{check: "read token", name: "a read has the token of the last write", edit: edits(lua.RwRead,
			"return {1, last, last, clock}", "return {1, clock, clock, clock}")},
		lack{check: "linearizability", name: "a write has a token of its own", edit: edits(lua.RwWrite,
			"local token, last = clock, call('GET', tokens)",
			"local last = call('GET', tokens)\nlocal token = last or clock\nlast = nil")},
		lack{check: "wake-up", name: "a writer that leaves is heard", edit: mute(lua.RwWriteRelease)},
		lack{check: "linearizability", name: "counts of readers are absolute", edit: edits(lua.RwReadRenew,
			"call('HSET', name, ARGV[1], ARGV[4])", "call('HINCRBY', name, ARGV[1], 1)")},
		lack{check: "left behind", name: "keys of readers end", edit: edits(lua.RwRead,
			"local limited = redis.pcall('PEXPIRE', name, ms)", "local limited")},
	),
	of(history.Permits, permitHolders,
		lack{check: "permits", name: "it is looked what is free", edit: edits(lua.SemAcquire,
			"if n <= free and (not first", "if (not first")},
		lack{check: "lost permits", name: "all come back", edit: edits(lua.SemRelease,
			"redis.pcall('INCRBY', name, n)", "redis.pcall('INCRBY', name, 1)")},
		lack{check: "fifo", name: "nobody barges", edit: edits(lua.SemAcquire,
			"(not first or first == owner)", "true")},
		lack{check: "wake-up", name: "those who wait are served", bias: quickPermits, edit: edits(lua.SemRelease,
			"call('ZRANGE', queue, passed, passed + step - 1)", "{}")},
		lack{check: "linearizability", name: "a token is greater than the last", edit: edits(lua.SemAcquire,
			"local last, token = call('GET', tokens), micros()", "local last, token = false, call('GET', tokens) or micros()")},
	),
	of(history.Latches, busy,
		lack{check: "linearizability", name: "a call counts once", bias: lostAnswers, edit: edits(lua.LatchCount,
			"if known then return {1, tonumber(known), clock} end", "")},
		lack{check: "linearizability", name: "a repeat is told what the first was", bias: lostAnswers, edit: edits(lua.LatchCount,
			"tonumber(known)", "tonumber(call('GET', name) or '0')")},
		lack{check: "wake-up", name: "it is told that it is open", edit: mute(lua.LatchCount)},
	),
	of(history.Elections, candidates,
		lack{check: "leader", name: "who resigns is not the leader any more", edit: slices.Concat(
			edits(lua.ElectionRelease, "redis.call('DEL', KEYS[6])", ""),
			edits(lua.ElectionLeader, "or redis.call('HEXISTS', KEYS[1], owner) == 0 then", "then"))},
		lack{check: "observed", name: "observers are told", edit: mute(lua.ElectionAnnounce)},
	),
)

// of are lacks that are shown in worlds of one kind.
func of(kind history.Family, bias func(*Settings), lacks ...lack) []lack {
	for i := range lacks {
		lacks[i].kind = kind
		if lacks[i].bias == nil {
			lacks[i].bias = bias
		}
	}
	return lacks
}

// TestChecksSee takes out one defence after the other until a world shows it, or seeing no violations would prove nothing. A
// world with all defences shows none. It is for a soak: how many worlds it takes is up to chance.
func TestChecksSee(t *testing.T) {
	level.ForSoak(t)
	defence.Need(t)
	first := level.Seed(t)
	for _, d := range lacks {
		t.Run(strings.TrimSpace(string(d.kind)+" "+d.name), func(t *testing.T) {
			history.Report(t, run(t, d.world(first, nil)).Problems, level.Replay(t, first))
			if d.off != nil {
				defer d.off.Without(t)()
			}
			for seed := first; seed < first+patience; seed++ {
				for _, p := range run(t, d.world(seed, d.edit)).Problems {
					if p.Check == d.check {
						t.Logf("missed in world %d: %s", seed-first+1, p.Text)
						return
					}
				}
			}
			t.Errorf("check %q has found no violation in %d worlds", d.check, patience)
		})
	}
}

func (d *lack) world(seed uint64, edit []redis.Hook) *World {
	w := &World{Settings: drawOf(seed, d.kind), Hooks: edit}
	if w.Fair = d.fair; w.Fair {
		w.Keeping = 0 // a fair lock cannot be kept
	}
	if d.bias != nil {
		d.bias(&w.Settings)
	}
	return w
}

// TestCrowd runs worlds in which callers are the fault: most have no time, and many more come than the lock can serve.
// Somebody is granted the lock all the same; what each costs is bounded; and all are told what is so.
func TestCrowd(t *testing.T) {
	var sum totals
	told := make(map[string]int)
	for seeds := range worlds(t, []uint64{19, 20, 36, 39, 47, 58}, upTo(24), nil) {
		for _, seed := range seeds { // one at a time, for goroutines are counted
			r := run(t, &World{Settings: crowded(seed)})
			sum.add(r)
			for _, o := range r.Ops {
				switch {
				case o.Early:
					told["ended before the call"]++
				case o.Outage:
					told["an outage"]++
				case o.Taken:
					told["taken"]++
				}
			}
			history.Report(t, r.Problems, replay(t, seed))
		}
	}
	t.Logf("proof: simulation: crowds: %s; told: %v", &sum, told)
	if !level.Exploring() {
		require.Len(t, told, 3)
	}
}

// TestCrowdControls: what a crowd does without a defence is found in the first worlds.
func TestCrowdControls(t *testing.T) {
	const plain, fair, permits = 24, 25, 27 // see crowded
	for _, c := range []struct {
		name, check string
		off         *defence.Switch
		seed        uint64
		bias        func(*Settings)
	}{
		{"who left is given back together", "places", &defence.Together, permits, farServer},
		{"who left is given back", "progress", &defence.Undo, plain, farServer},
		{"the word of others counts", "truth", &defence.Noted, fair, farServer},
		{"an outage is none of others'", "truth", &defence.Outage, fair, silentServer},
	} {
		t.Run(c.name, func(t *testing.T) {
			level.ForAll(t) // the defences have controls elsewhere; here they are those of the checks
			found := func(check string) (all []history.Violation) {
				w := &World{Settings: crowded(c.seed)}
				c.bias(&w.Settings)
				for _, p := range run(t, w).Problems {
					if check == "" || p.Check == check {
						all = append(all, p)
					}
				}
				return all
			}
			if !testing.Short() {
				history.Report(t, found(""), t.Name())
			}
			defer c.off.Without(t)()
			if c.off == &defence.Together { // places that end by themselves hide that
				defer defence.InTime.Without(t)()
			}
			all := found(c.check)
			for tries := 1; len(all) == 0 && tries < 10; tries++ { // a world is not the same twice to the last goroutine
				all = found(c.check)
			}
			require.NotEmpty(t, all, "control")
			t.Logf("%d times, first: %s", len(all), all[0].Text)
		})
	}
}

// farServer has a crowd that the server can serve just so.
func farServer(s *Settings) {
	s.Crowd, s.Latency, s.Service, s.Apart = 16, 3*time.Millisecond, 600*time.Microsecond, false
	s.Only, s.FaultGap, s.Burst, s.Length = nil, time.Hour, 300*time.Millisecond, 15*time.Second
}

// silentServer is out of reach nearly all the time.
func silentServer(s *Settings) {
	farServer(s)
	s.Latency, s.Burst, s.Crowd = 20*time.Millisecond, 2*time.Second, 8
	s.silence(time.Second, s.Length)
}

// TestDear: what callers may cost, and what is too much.
func TestDear(t *testing.T) {
	ops := []history.Op{{Kind: history.Lock, Call: 1, Return: 20}, {Kind: history.Lock, Actor: 1, Call: 2, Return: 30}}
	for _, c := range []struct {
		what string
		l    load
		bad  string
	}{
		{"as much as may be", load{at: 10, places: 12, commands: 104, goroutines: 64}, ""},
		{"places", load{at: 10, places: 13}, "places"},
		{"goroutines", load{at: 10, goroutines: 65}, "goroutines"},
		{"commands", load{at: 10, commands: 105}, "commands"},
		{"one has left", load{at: 25, places: 11}, "places"},
		{"after a fault", load{at: 10 + int64(time.Hour), places: 13}, ""},
	} {
		w := &World{Settings: Settings{Clients: 1}, loads: []load{c.l}, windows: []history.Window{{From: int64(time.Hour), To: int64(time.Hour)}}}
		found := ""
		for _, v := range w.dear(ops) {
			found += v.Check
		}
		require.Equal(t, c.bad, found, c.what)
	}
}
