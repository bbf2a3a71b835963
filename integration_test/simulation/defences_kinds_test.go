package simulation

import (
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	text "github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
)

// What keeps readers and writers, permits, latches and elections right: for each check that these kinds have,
// one defence at least that it misses.
var kindDefences = slices.Concat(
	ofKind(history.ReadWrite, "rw: ", []lack{
		{name: "who reads is refused to write", off: &defence.Upgrade, bias: readersAndWriters, checks: list("upgrade")},
		{name: "a reader looks for a writer", bias: readersAndWriters, checks: list("exclusion"),
			mutant: one(lua.RwRead, "if mode ~= 'read' and not held[3] then", "if false then")},
		{name: "a writer looks for readers", bias: readersAndWriters, checks: list("exclusion", "linearizability"),
			mutant: one(lua.RwWrite, "if rest > 0 then blocked", "if false then blocked")},
		{name: "a reader waits for one that waits to write", bias: readersAndWriters, checks: list("turns"),
			mutant: one(lua.RwRead, "if writer then return", "if false then return")},
		{name: "a read has the token of the last write", bias: readersAndWriters, checks: list("read token"),
			mutant: one(lua.RwRead, "return {1, last, last, clock}", "return {1, clock, clock, clock}")},
		{name: "a write has a token of its own", bias: readersAndWriters, checks: list("tokens"),
			mutant: one(lua.RwWrite, "local token, last = clock, call('GET', tokens)",
				"local last = call('GET', tokens)\nlocal token = last or clock\nlast = nil")},
		{name: "a writer that leaves is heard", bias: readersAndWriters, checks: list("wake-up"),
			mutant: mutant(lua.RwWriteRelease, "if cmd == 'PUBLISH' then return 0 end")},
		{name: "counts of readers are absolute", bias: readersAndWriters, checks: list("linearizability"),
			mutant: one(lua.RwReadRenew, "call('HSET', name, ARGV[1], ARGV[4])", "call('HINCRBY', name, ARGV[1], 1)")},
		{name: "keys of readers end", bias: readersAndWriters, checks: list("left behind"),
			mutant: mutant(lua.RwRead, "if cmd == 'PEXPIRE' then return 1 end")},
	}),
	ofKind(history.Permits, "sem: ", []lack{
		{name: "it is looked what is free", bias: permitHolders, checks: list("permits", "linearizability"),
			mutant: one(lua.SemAcquire, "if n <= free and (not first", "if (not first")},
		{name: "all come back", bias: permitHolders, checks: list("lost permits"),
			mutant: one(lua.SemRelease, "redis.pcall('INCRBY', name, n)", "redis.pcall('INCRBY', name, 1)")},
		{name: "nobody barges", bias: permitHolders, checks: list(fifo),
			mutant: one(lua.SemAcquire, "(not first or first == owner)", "true")},
		{name: "those who wait are served", bias: quickPermits, checks: list("wake-up"),
			mutant: mutant(lua.SemRelease, "if cmd == 'ZRANGE' then return {} end")},
		{name: "a token is greater than the last", bias: permitHolders, checks: list("tokens"),
			mutant: one(lua.SemAcquire, "local last, token = call('GET', tokens), micros()",
				"local last, token = false, call('GET', tokens) or micros()")},
	}),
	ofKind(history.Latches, "latch: ", []lack{
		{name: "a call counts once", bias: lostAnswers, checks: list("linearizability"),
			mutant: one(lua.LatchCount, "if call('EXISTS', this) == 1 then", "if false then")},
		{name: "it is told that it is open", bias: gates, checks: list("wake-up"),
			mutant: mutant(lua.LatchCount, "if cmd == 'PUBLISH' then return 0 end")},
	}),
	ofKind(history.Elections, "election: ", []lack{
		{name: "who resigns is not the leader any more", bias: candidates, checks: list("leader"),
			mutant: both(mutant(lua.ElectionRelease, "if cmd == 'DEL' and string.find(key, 'election') then return 0 end"),
				mutant(lua.ElectionLeader, "if cmd == 'HEXISTS' then return 1 end"))},
		{name: "observers are told", bias: candidates, checks: list("observed"),
			mutant: mutant(lua.ElectionAnnounce, "if cmd == 'PUBLISH' then return 0 end")},
	}),
)

// ofKind are lacks that are shown in worlds of one kind.
func ofKind(kind history.Family, prefix string, lacks []lack) []lack {
	for i := range lacks {
		lacks[i].kind, lacks[i].name = kind, prefix+lacks[i].name
	}
	return lacks
}

// one is one script with edits as [text.Hook] has them.
func one(script *lua.Script, edits ...string) func() []redis.Hook {
	return func() []redis.Hook { return []redis.Hook{text.Hook(script, edits...)} }
}

func both(a, b func() []redis.Hook) func() []redis.Hook {
	return func() []redis.Hook { return append(a(), b()...) }
}

// busy has clients meet all the time, and nothing else happen.
func busy(s *Settings) {
	calm(s)
	s.Lease, s.Latency, s.ReadTimeout = 20*time.Second, time.Millisecond, 3*time.Second
	s.Length, s.Life, s.FaultGap = s.Lease, 100*s.Lease, 1000*s.Lease
	s.Hold, s.Think, s.Wait, s.Names, s.Quantum = time.Second, time.Second, 5*time.Second, 1, 0
	s.Clients, s.Actors = 2, 3
}

// readersAndWriters hold for longer than they think, so that others wait.
func readersAndWriters(s *Settings) {
	busy(s)
	s.Think, s.Actors, s.Length = 300*time.Millisecond, 4, 2*s.Lease
}

func permitHolders(s *Settings) {
	busy(s)
	s.Permits = 3
}

// quickPermits have leases so short that a wake-up may take less than the pause between polls.
func quickPermits(s *Settings) {
	quickQueue(s)
	s.Permits, s.Length = 1, 5*s.Lease
}

func gates(s *Settings) { busy(s) }

func candidates(s *Settings) {
	busy(s)
	s.Hold = 2 * time.Second
}

// lostAnswers are those of calls that are sent again at once.
func lostAnswers(s *Settings) {
	busy(s)
	s.ReadTimeout, s.RetryBudget, s.Names = time.Second, 10*time.Second, 1
	s.Only, s.FaultGap, s.FaultLength, s.Length = []Fault{LostReply}, s.Lease/4, s.Lease/8, 2*s.Lease
}
